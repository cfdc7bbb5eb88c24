"""Projections and estimators on odd shapes and numbers: what must hold whatever comes in."""

import contextlib

import pytest
import torch
from fuzz_cases import cases
from hypothesis import given
from hypothesis import strategies as st

import ptd_ext
from ptd_ext.ops import reference
from ptd_ext.transition import neighbour_transition

SEED = st.integers(0, 2**32)


def numbers(seed, *shape, dtype=torch.float64, scale=1.0, special=None):
    """Normal numbers, some of them something else."""
    g = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(shape, generator=g, dtype=torch.float64)
    if special is not None:
        x[torch.rand(shape, generator=g) < 0.1] = special
    return x.to(dtype)


def assert_on_the_simplex(rows, close=1e-5):
    assert (rows >= 0).all()
    torch.testing.assert_close(rows.double().sum(-1), torch.ones(rows.shape[:-1]).double(), rtol=0,
                               atol=close)  # fmt: skip


class Rejected(Exception):
    """A ValueError with a message of ours."""


@contextlib.contextmanager
def rejections():
    """Distinguishes messages of ours from errors that torch or Python raise."""
    try:
        yield
    except ValueError as error:
        raise (Rejected if str(error).endswith(".") else AssertionError)(str(error)) from error


SCALES = st.sampled_from([1e-40, 1e-3, 1.0, 1e3, 1e38])
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16])


@cases(60)
@given(
    SEED, st.integers(0, 9), st.sampled_from([1, 2, 3, 7, 16, 17, 33, 100, 1021]), SCALES, DTYPES,
    st.sampled_from([None, None, torch.inf, -torch.inf, torch.nan, 0.0]), st.booleans(),
)  # fmt: skip
def test_simplex_projection(seed, rows, size, scale, dtype, special, transposed):
    x = numbers(seed, rows, size, dtype=dtype, scale=scale, special=special)
    x = x.t().contiguous().t() if transposed else x
    found = ptd_ext.ops.simplex_projection(x)
    expected = reference.simplex_projection(x.double())
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-6, equal_nan=True)
    bad = x.isnan().any(-1)
    assert found[bad].isnan().all()
    assert_on_the_simplex(found[~bad])


@cases(40)
@given(
    SEED, st.integers(0, 20), st.sampled_from([1, 2, 3, 5, 8, 17, 40]), st.integers(0, 30),
    st.sampled_from([1e-20, 1e-3, 1.0, 1e4]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_simplex_weights(seed, rows, parts, steps, scale, singular, warm):
    """On the simplex, and no worse than the start."""
    basis = numbers(seed, parts, 1 if singular else parts + 2, scale=scale**0.5)
    gram = basis @ basis.T
    linear = numbers(seed + 1, rows, parts, scale=scale)
    start = numbers(seed + 2, rows, parts).softmax(-1) if warm else None
    found = ptd_ext.ops.simplex_weights(gram, linear, start, max_iter=steps)
    assert_on_the_simplex(found, 1e-9)

    def objective(h):
        return 0.5 * ((h @ gram) * h).sum(-1) - (linear * h).sum(-1)

    begin = torch.full_like(linear, 1 / parts) if start is None else start
    slack = 1e-12 * (gram.abs().max() + (linear.abs().max() if rows else 0))
    assert (objective(found) <= objective(begin) + slack).all()
    single = ptd_ext.ops.simplex_weights(gram.float(), linear.float(), max_iter=steps)
    assert_on_the_simplex(single)


@cases(12)
@given(
    SEED, st.integers(2, 40), st.integers(1, 12), st.integers(1, 6), DTYPES,
    st.sampled_from(["normal", "zero", "identical", "tiny", "huge", "nan"]),
)  # fmt: skip
def test_simplex_nmf(seed, rows, features, parts, dtype, kind):
    x = numbers(seed, rows, features, dtype=dtype).abs()
    scale = {"tiny": 1e-18, "huge": 1e18, "zero": 0.0}.get(kind, 1.0)
    x = (x.double() * scale).to(torch.float64 if dtype == torch.float64 else torch.float32)
    if kind == "identical":
        x = x[:1].expand(rows, features)
    nmf = ptd_ext.SimplexNMF(n_parts=parts, max_iter=3)
    if kind == "nan":
        x[0, 0] = torch.nan
        with pytest.raises(ValueError, match="NaN"):
            nmf.fit_transform(x)
        return
    with contextlib.suppress(Rejected), rejections():
        nmf.fit(x)
    if not hasattr(nmf, "components_"):
        return  # more parts than samples, say
    weights = torch.as_tensor(nmf.fit_transform(x))
    assert weights.shape == (rows, parts)
    assert_on_the_simplex(weights)
    assert torch.as_tensor(nmf.components_).isfinite().all()


@cases(30)
@given(
    SEED, st.integers(2, 7), st.integers(1, 12), st.integers(1, 12),
    st.sampled_from([0.0, 1e-9, 1e-3, 10.0]), st.sampled_from(["normal", "same", "corners"]),
)  # fmt: skip
def test_fit_part_transitions(seed, classes, per_class, parts, ridge, kind):
    """Rows on the simplex and optimal, whatever the anchors leave open."""
    samples = classes * per_class
    weights = numbers(seed, samples, parts).softmax(-1)
    if kind == "same":
        weights = weights[:1].expand(samples, parts)
    elif kind == "corners":
        weights = torch.eye(parts).double()[torch.arange(samples) % parts]
    posterior = numbers(seed + 1, samples, classes, scale=3).softmax(-1)
    anchors = [torch.arange(label, samples, classes) for label in range(classes)]
    fit = ptd_ext.fit_part_transitions(weights, posterior, anchors, ridge=ridge)
    assert fit.parts.shape == (parts, classes, classes)
    assert_on_the_simplex(fit.parts, 1e-9)
    assert fit.kkt_residual.max() < 1e-6


@cases(30)
@given(
    SEED, st.integers(1, 200), st.integers(1, 9), DTYPES, st.sampled_from([0.01, 1.0, 30.0]),
    st.booleans(),
)  # fmt: skip
def test_find_anchors(seed, samples, classes, dtype, scale, has_ids):
    """For every class ids of the data, none twice, by rising posterior; or an error message."""
    posterior = numbers(seed, samples, classes, scale=scale).softmax(-1).to(dtype)
    ids = torch.arange(samples)
    if has_ids:
        ids = 1000 + torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    anchors = None
    with contextlib.suppress(Rejected), rejections():
        anchors = ptd_ext.find_anchors(posterior, **{"ids": ids} if has_ids else {})
    if anchors is None:
        return
    where = {number: at for at, number in enumerate(ids.tolist())}
    assert len(anchors) == classes
    for label in range(classes):
        chosen = anchors[label].tolist()
        assert len(chosen) == len(set(chosen)) >= 1
        values = posterior[[where[number] for number in chosen], label].double()
        assert (values.diff() >= 0).all()


def assert_rejected_or(result, check):
    """Check what a call returns, or that it raises an error with a message of ours."""
    found = None
    with contextlib.suppress(Rejected), rejections():
        found = result()
    if found is not None:
        check(found)


LABEL_KINDS = st.sampled_from(["drawn", "drawn", "one class", "last class"])


def labels_of(seed, samples, classes, kind):
    """Drawn from all classes, or all of the first or of the last, so that the others are empty."""
    drawn = torch.randint(classes, (samples,), generator=torch.Generator().manual_seed(seed))
    only = {"one class": 0, "last class": classes - 1}
    return torch.full_like(drawn, only[kind]) if kind in only else drawn


@cases(30)
@given(
    SEED, st.integers(1, 40), st.sampled_from([2, 3, 7, 30]), DTYPES, LABEL_KINDS,
    st.sampled_from([0.0, 1e-6, 0.3, 0.9, 1.0]), st.sampled_from([1e-3, 3.0, 1e4]),
    st.booleans(), st.sampled_from([None, 1, 10**9]), st.sampled_from([0.0, 0.4, 1.0]),
)  # fmt: skip
def test_transition_em(seed, samples, classes, dtype, kind, rate, scale, held, window, share):
    """T stays a transition matrix and the loss finite, whatever the batches are."""
    labels = labels_of(seed, samples, classes, kind)
    logits = numbers(seed, samples, classes, dtype=dtype, scale=scale).requires_grad_()
    options = {"hold_diagonal": held, "window": window, "base_share": share}

    def result():
        return ptd_ext.TransitionEM(labels, rate, n_classes=classes, **options)

    def check(em):
        for ignored in (samples, 0, samples // 2, samples):
            given_labels = labels.clone()
            given_labels[:ignored] = -100
            before = em.transition
            loss = em(logits, given_labels)
            (grad,) = torch.autograd.grad(loss, logits)
            assert loss.isfinite()
            assert grad.isfinite().all()
            assert_on_the_simplex(em.transition)
            if ignored == samples:
                assert torch.equal(em.transition, before)
        assert 0 <= em.summary().noise_rate <= 1

    assert_rejected_or(result, check)


@cases(12)
@given(
    SEED, st.integers(1, 30), st.integers(1, 6), st.sampled_from([2, 3, 7]), st.integers(1, 4),
    LABEL_KINDS, st.sampled_from([0.0, 1e-300, 1e-30, 1e-12, 1.0, 1e12, 1e29, 1e300]),
    st.sampled_from([0.1, 3.0, 1e4]),
)  # fmt: skip
def test_fit_learned_parts(seed, samples, size, classes, parts, kind, scale, sharp):
    features = numbers(seed, samples, size, scale=scale)
    posterior = numbers(seed + 1, samples, classes, scale=sharp).softmax(-1)
    labels = labels_of(seed, samples, classes, kind)

    def result():
        return ptd_ext.fit_learned_parts(features, posterior, labels, n_parts=parts, max_epochs=2)

    def check(fit):
        assert_on_the_simplex(fit.parts)
        assert_on_the_simplex(fit.weights)
        assert len(fit.weights) == samples
        assert 0 <= fit.summary().noise_rate <= 1

    assert_rejected_or(result, check)


@cases(30)
@given(
    SEED, st.integers(1, 40), st.integers(1, 6), st.sampled_from([2, 3, 7]), DTYPES, LABEL_KINDS,
    st.integers(1, 6), st.sampled_from([0.0, 1e-300, 1e-40, 1e-30, 1.0, 1e4, 1e30, 1e300]),
    st.booleans(),
)  # fmt: skip
def test_neighbour_transition(seed, samples, size, classes, dtype, kind, k, scale, same):
    features = numbers(seed, samples, size, dtype=dtype, scale=scale)
    features = features[:1].expand(samples, size) if same else features
    labels = labels_of(seed, samples, classes, kind)

    def result():
        return neighbour_transition(features, labels, k, n_classes=classes, max_iter=20)

    def check(found):
        assert_on_the_simplex(found.transition)
        assert_on_the_simplex(found.posterior)
        assert_on_the_simplex(found.class_prior)
        assert_on_the_simplex(found.base())
        assert 0 <= found.noise_rate <= 1
        assert 0 <= found.agreement <= 1

    assert_rejected_or(result, check)
