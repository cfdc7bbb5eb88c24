"""SimplexNMF: what it computes."""

import numpy as np
import pytest
import torch
from cases import each_device

import ptd_ext
from ptd_ext import SimplexNMF
from ptd_ext.nmf._updates import Sums
from ptd_ext.ops import reference

each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


def mixtures(rows=400, features=12, parts=4, noise=0.0, pure=0, seed=0):
    """Mixtures of random parts: X [N, D] and the parts; the first rows are the parts themselves."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    basis = 3 * normal(parts, features)
    weights = (2 * normal(rows, parts)).softmax(-1)
    for part in range(parts):
        weights[part * pure : (part + 1) * pure] = torch.eye(parts, dtype=torch.float64)[part]
    return weights @ basis + noise * normal(rows, features), basis


def squared(x, weights, parts):
    return (x - weights @ parts).square().sum().item()


@each_device
@each_dtype
def test_both_steps_are_optimal(dtype, device):
    x, _ = mixtures(noise=0.5)
    x = x.to(device, dtype)
    model = SimplexNMF(4, random_state=0, weight_tol=1e-7, transform_steps=3000)
    weights = model.fit_transform(x)
    parts = model.components_
    tight = 1e-6 if dtype is torch.float64 else 1e-5
    # Weights: no row moves under a projected gradient step.
    gram = parts @ parts.T
    gradient = (weights @ gram - x @ parts.T) / torch.linalg.eigvalsh(gram.double())[-1].to(dtype)
    moved = reference.simplex_projection(weights - gradient) - weights
    assert moved.abs().max() < tight
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[:, 0]))
    # Parts: the gradient hᵀ(hW − X) vanishes for the W that the step returns.
    sums = Sums((weights.T @ weights)[None].double(), (weights.T @ x)[None].double())
    best = sums.best_parts(parts[None])[0]
    gradient = weights.T @ (weights @ best - x)
    assert gradient.abs().max() < 100 * tight * (weights.T @ x).abs().max()
    # And it is exact: no other W is better.
    exact = torch.linalg.lstsq(weights.double().cpu(), x.double().cpu()).solution
    assert squared(x, weights, best) <= squared(x.double().cpu(), weights.double().cpu(), exact) * (
        1 + 100 * tight
    )


@each_dtype
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_error_never_rises(noise, dtype):
    x = mixtures(noise=noise, parts=6)[0].to(dtype)
    errors = []
    for iterations in range(1, 25):
        model = SimplexNMF(6, random_state=3, max_iter=iterations, tol=0)
        weights = model.fit_transform(x)
        errors.append(squared(x.double(), weights.double(), model.components_.double()))
        assert model.n_iter_ == iterations
    rounding = 1e-12 if dtype is torch.float64 else 1e-6
    drops = -np.diff(errors)
    assert (drops >= -rounding * errors[0]).all()
    # The reported errors are from before the last weights. They are differences from ‖X‖², in which
    # most digits cancel.
    reported, rounding = np.array(model.objectives_), rounding * float(x.double().square().sum())
    assert len(reported) == 25
    assert (np.diff(reported) <= rounding).all()
    assert errors[-1] <= reported[-1] + rounding
    assert model.reconstruction_err_ == pytest.approx(errors[-1] ** 0.5, rel=1e-4, abs=1e-6)


def test_single_precision_finds_what_double_finds():
    x, _ = mixtures(noise=0.3)
    # Later iterations gain less than the rounding error of the objective in single precision.
    double, single = (SimplexNMF(4, random_state=0, max_iter=15, tol=0) for _ in range(2))
    weights = double.fit_transform(x)
    assert (single.fit_transform(x.float()).double() - weights).abs().max() < 2e-3
    assert single.components_.dtype == torch.float32
    difference = (single.components_ - double.components_).abs().max()
    assert difference < 2e-3 * double.components_.abs().max()


@each_dtype
@pytest.mark.parametrize("scale", [1e-5, 1e-2, 1e2, 1e4])
def test_scale_does_not_matter(scale, dtype):
    x = mixtures(noise=0.3)[0].to(dtype)
    plain = SimplexNMF(4, random_state=0, max_iter=15)
    scaled = SimplexNMF(4, random_state=0, max_iter=15)
    weights = plain.fit_transform(x)
    tolerance = 1e-4 if dtype is torch.float64 else 5e-3
    torch.testing.assert_close(scaled.fit_transform(scale * x), weights, rtol=0, atol=tolerance)
    assert scaled.reconstruction_err_ == pytest.approx(scale * plain.reconstruction_err_, rel=1e-3)


@each_device
@pytest.mark.parametrize("parts", [1, 2, 5, 10])
def test_planted_parts_are_recovered(parts, device):
    """From any start, where some rows are parts themselves."""
    x, planted = mixtures(rows=100 * parts, features=20, parts=parts, pure=5)
    x, planted = x.to(device), planted.to(device)
    for seed in range(2):
        model = SimplexNMF(parts, random_state=seed, max_iter=300, tol=0, compactness=1e-3)
        weights = model.fit_transform(x)
        found = model.components_
        nearest = torch.cdist(planted, found).argmin(-1)
        assert nearest.unique().numel() == parts
        away = (found[nearest] - planted).norm(dim=-1) / planted.norm(dim=-1)
        assert away.max() < 0.03
        assert weights[: 5 * parts].amax(-1).min() > 0.97
        assert (np.diff(model.objectives_) <= 1e-12 * x.square().sum().item()).all()


def test_parts_hold_all_data_where_they_can():
    """Without compactness the parts are not unique, but X still consists of mixtures of them."""
    x, planted = mixtures(rows=500, features=20, parts=5, pure=5)
    model = SimplexNMF(5, random_state=0, max_iter=1000, tol=1e-12).fit(x)
    assert model.reconstruction_err_ < 1e-5 * x.norm()
    again = model.inverse_transform(model.transform(planted))
    assert (again - planted).norm() < 1e-4 * planted.norm()


def test_new_rows_get_the_weights_that_old_ones_have():
    x, _ = mixtures(noise=0.2)
    model = SimplexNMF(4, random_state=0)
    weights = model.fit_transform(x)
    torch.testing.assert_close(model.transform(x), weights, rtol=0, atol=1e-4)
    assert torch.equal(model.transform(x)[7:30], model.transform(x[7:30]))
    torch.testing.assert_close(model.inverse_transform(weights), weights @ model.components_)
    gram, linear = model.components_ @ model.components_.T, x @ model.components_.T
    direct = ptd_ext.ops.simplex_weights(gram, linear, max_iter=500, tol=1e-6)
    torch.testing.assert_close(model.transform(x), direct, rtol=0, atol=1e-4)


def test_restarts():
    x, _ = mixtures(parts=8, noise=0.1)
    single = [
        SimplexNMF(8, random_state=seed, max_iter=10, tol=0).fit(x).objectives_ for seed in range(3)
    ]
    together = SimplexNMF(8, random_state=0, n_init=3, max_iter=10, tol=0).fit(x)
    best = min(errors[-1] for errors in single[:1])
    assert together.objectives_[-1] <= best * (1 + 1e-9)
    assert together.components_.shape == (8, 12)
    again = SimplexNMF(8, random_state=0, n_init=3, max_iter=10, tol=0).fit(x)
    assert torch.equal(again.components_, together.components_)


def test_partial_fit():
    x, _ = mixtures(rows=4000, noise=0.05)
    whole = SimplexNMF(4, random_state=0).fit(x)
    online = SimplexNMF(4, random_state=0)
    with pytest.raises(AttributeError, match="not fitted yet: call fit first"):
        online.transform(x)
    for _ in range(6):
        for batch in x.split(500):
            assert online.partial_fit(batch) is online
    assert online.n_iter_ == 48
    error = squared(x, online.transform(x), online.components_) ** 0.5
    assert error < 1.2 * whole.reconstruction_err_
    # It goes on from a fit, too, and what was good stays good.
    whole.partial_fit(x)
    after = squared(x, whole.transform(x), whole.components_) ** 0.5
    assert after <= whole.reconstruction_err_ * 1.001


def test_an_unused_part_stays():
    x = torch.zeros(10, 3, dtype=torch.float64)
    model = SimplexNMF(4, random_state=0).fit(x)
    assert torch.equal(model.components_, torch.zeros(4, 3, dtype=torch.float64))
    assert model.reconstruction_err_ == 0


def test_tol_and_random_state():
    x, _ = mixtures(noise=0.2)
    loose, strict = (SimplexNMF(4, random_state=0, tol=tol).fit(x) for tol in (1e-2, 1e-6))
    assert loose.n_iter_ < strict.n_iter_ < 200
    assert strict.reconstruction_err_ <= loose.reconstruction_err_
    for state in (np.random.RandomState, np.random.default_rng):
        first, second = (SimplexNMF(4, random_state=state(5), max_iter=2).fit(x) for _ in range(2))
        assert torch.equal(first.components_, second.components_)
    generator = torch.Generator().manual_seed(1)
    other = SimplexNMF(4, random_state=generator, max_iter=2).fit(x)
    assert not torch.equal(first.components_, other.components_)
