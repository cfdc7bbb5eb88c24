"""Losses and clean posterior on CUDA, emulated: entries of T(x) + slack, clamped at zero or not.

Each case is run with one part, with some, and with many.
"""

import math

import pytest
import torch
from cuda_cases import batch_of, check_loss, run_loss, run_noisy, run_posterior
from cuda_cases import check_posterior as check_clean_posterior
from emulator.harness import compiler
from random_numbers import new_generator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

SIZES = [(37, 2, 1), (37, 2, 33), (37, 10, 20), (37, 14, 1), (37, 14, 20), (37, 10, 33)]
sizes = pytest.mark.parametrize("size", SIZES)


def check_posterior(batch):
    check_clean_posterior(batch, wanted=())


def check_both(batch):
    check_loss(batch, wanted=("logits", "slack"), reduction="none")
    check_posterior(batch)


@sizes
def test_slack_of_zero_is_as_none(size):
    batch = batch_of(*size, 0.0)
    check_both(batch)
    without, found = (run_loss(given, wanted=())[0] for given in (batch_of(*size), batch))
    torch.testing.assert_close(found, without, rtol=1e-5, atol=1e-6)


@sizes
@pytest.mark.parametrize("scale", [0.003, 0.05, 2.0])
def test_sizes_of_slack(size, scale):
    check_both(batch_of(*size, scale, seed=1))


@sizes
def test_rows_of_every_kind(size):
    """Never clamped, always clamped, clamped in some samples, and mixed."""
    batch = batch_of(*size, 0.0, seed=2)
    c = batch.slack.shape[0]
    batch.parts = (batch.parts + 0.1) / (1 + 0.1 * c)
    batch.slack[0] = -2.0
    batch.slack[1] = -0.05
    batch.slack[2:, ::2] = -0.3
    batch.slack[3:, 1::2] = -1.5
    check_both(batch)


@sizes
@pytest.mark.parametrize("factor", [0.0, 0.5, 0.99, 1.5, -1.0])
def test_weights_off_the_simplex(size, factor):
    batch = batch_of(*size, 0.0, seed=3)
    batch.slack -= 0.04  # what is clamped depends on the sum of the weights
    batch.weights[5] *= factor
    check_both(batch)


@sizes
def test_negative_weights(size):
    batch = batch_of(*size, 0.02, seed=4)
    if size[2] == 1:
        pytest.skip("one weight that is negative does not sum to one")
    batch.weights[7, 0] -= 3.0  # the sum stays
    batch.weights[7, 1] += 3.0
    check_both(batch)


@sizes
@pytest.mark.parametrize("slack", [-0.002, -0.02, -0.1])
def test_entries_of_both_signs_in_neighbouring_samples(size, slack):
    """Weights of one part each next to even ones."""
    batch = batch_of(*size, 0.001, seed=8)
    batch.slack += slack
    batch.weights[::3] = torch.eye(size[2])[torch.arange(13) % size[2]]
    check_both(batch)


@pytest.mark.parametrize("size", [size for size in SIZES if size[2] <= 20])
@pytest.mark.parametrize("off", [-2e-3, -1e-4, -1e-6, 0.0, 1e-6, 1e-4])
def test_entries_near_zero(size, off):
    """With even weights, each entry of the first row is `off`, but the last one is large."""
    batch = batch_of(*size, 0.0, seed=9)
    batch.weights[:] = 1 / size[2]
    batch.slack[0] = off - batch.parts[:, 0].mean(0)
    batch.slack[0, -1] += 0.5
    check_posterior(batch)  # in the slack's gradient, rounding may leave out an entry


@pytest.mark.parametrize("size", [(10, 20), (14, 3), (40, 4)])
@pytest.mark.parametrize("left", [0, 1e-5])
@pytest.mark.parametrize("weight_sum", [1, 1 - 6e-8, 1 - 3e-3, 1 + 3e-3])
def test_rows_that_cancel_to_rounding(size, left, weight_sum):
    """The sign of an entry is no better known than its last digit, but rows sum to one.

    Row 1 is next to nothing. A row sum that has an entry which the column has not, or the other
    way round, would be off by as much as the row is.
    """
    c, r = size
    batch = batch_of(3 * c, c, r, 0.0, seed=13)  # each sample once with every label
    batch.labels = torch.arange(c).repeat(3)
    batch.logits = batch.logits[:3].repeat_interleave(c, 0)
    batch.logits[:, 1] += 8
    batch.weights = weight_sum * batch.weights[:3].repeat_interleave(c, 0)
    batch.parts[:] = (batch.parts[:1] + 0.1) / (1 + 0.1 * c)
    batch.slack[1] = (left - 1) * batch.parts[0, 1] * weight_sum
    batch.slack[1, -1] += 2e-7
    loss, _ = run_loss(batch, reduction="none", wanted=())
    total = loss.neg().exp().view(3, c).sum(1)
    torch.testing.assert_close(total, torch.ones(3), rtol=0, atol=1e-4)
    posterior, _ = run_noisy(batch, None, wanted=())
    torch.testing.assert_close(posterior.sum(1), torch.ones(3 * c), rtol=0, atol=1e-4)


@sizes
def test_weights_of_minus_zero(size):
    batch = batch_of(*size, 0.01, seed=10)
    batch.weights[3] = -0.0
    batch.weights[3, -1] = 1.0
    check_both(batch)


@sizes
@pytest.mark.parametrize("scale", [1e-34, 1e-20, 1e20, 1e32])
def test_parts_of_any_size(size, scale):
    batch = batch_of(*size, 0.01, seed=11)
    batch.parts *= scale
    batch.slack *= scale
    check_posterior(batch)


@sizes
def test_a_row_with_nothing_positive_is_uniform(size):
    batch = batch_of(*size, 0.0, seed=5)
    batch.slack[0] = -5.0
    batch.parts[:, 1] = 0.0
    check_both(batch)


@sizes
@pytest.mark.parametrize("name", ["parts", "slack", "weights"])
def test_nan_reaches_the_loss(size, name):
    for value in (-1.0, 0.0, 1.0):  # the other entries of the slack
        batch = batch_of(*size, 0.0, seed=6)
        batch.slack += value
        tensor = getattr(batch, name)
        tensor[(0,) * tensor.dim()] = math.nan
        loss, _ = run_loss(batch, reduction="none", wanted=())
        posterior, _ = run_posterior(batch)
        bad = slice(0, 1) if name == "weights" else slice(None)
        assert loss[bad].isnan().all()
        assert posterior[bad].isnan().any(1).all()
        if name == "weights":
            assert loss[1:].isfinite().all()


@sizes
def test_results_repeat(size):
    batch = batch_of(*size, 0.01, seed=7)
    runs = ({"seed": seed, "switch_probability": 0.1, "wanted": ()} for seed in (0, 1))
    first, second = (run_loss(batch, **run)[0] for run in runs)
    assert torch.equal(first, second)


@pytest.mark.parametrize("open_entries", [0, 1, 2, 3, 5, 6, 7, 99, 100])
@pytest.mark.parametrize("r", [2, 20])
def test_numbers_of_entries_whose_sign_differs_between_samples(open_entries, r):
    batch = batch_of(37, 10, r, 0.0, seed=12)
    generator = new_generator(open_entries)
    for e in torch.randperm(100, generator=generator)[:open_entries]:
        i, k = divmod(int(e), 10)
        batch.slack[i, k] = -batch.parts[:, i, k].quantile(0.3)
    check_posterior(batch)
