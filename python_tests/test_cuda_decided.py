"""Entries of T(x) + slack whose clamping is decided once for all samples (csrc/cuda/decided.cuh).

Each case is run with few parts, with as many as a lane has registers for, and with too many for
that, where all entries are formed.
"""

import math

import pytest
import torch
from cuda_labels import batch_of, run_loss, run_posterior
from emulator.harness import compiler
from test_cuda_transition_loss import check

from ptd_ext import reference

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

SIZES = [(37, c, r) for c in (2, 10, 14) for r in (1, 20, 33)]
sizes = pytest.mark.parametrize("size", SIZES)


def check_posterior(batch):
    posterior, _ = run_posterior(batch, torch.ones_like(batch.logits))
    expected = batch.double().define(reference.clean_posterior)
    torch.testing.assert_close(posterior.double(), expected.detach(), rtol=0, atol=2e-5)


def check_both(batch):
    check(batch, wanted=("logits", "slack"), reduction="none")
    check_posterior(batch)


@sizes
def test_zero_slack_decides_all(size):
    batch = batch_of(*size, 0.0)
    check_both(batch)
    without = run_loss(batch_of(*size))[0]
    torch.testing.assert_close(run_loss(batch)[0], without, rtol=1e-5, atol=1e-6)


@sizes
@pytest.mark.parametrize("scale", [0.003, 0.05, 2.0])
def test_some_undecided(size, scale):
    check_both(batch_of(*size, scale, seed=1))


@sizes
def test_rows_of_every_kind(size):
    """Never clamped, always clamped, undecided and mixed."""
    batch = batch_of(*size, 0.0, seed=2)
    c = batch.slack.shape[0]
    batch.parts = (batch.parts + 0.1) / (1 + 0.1 * c)
    batch.slack[0] = -2.0
    batch.slack[1] = -0.05
    batch.slack[2:, ::2] = -0.3
    batch.slack[3:, 1::2] = -1.5
    check_both(batch)


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("r", [7, 20])
def test_a_warp_that_is_not_full_decides_alike(r, strided):
    """Copies of one sample come out the same to the bit, in the second warp too."""
    for seed in range(3):
        batch = batch_of(32 + 5, 10, r, 0.003, seed=seed)
        for tensor in (batch.logits, batch.labels, batch.weights):
            tensor[1:] = tensor[0].clone()
        if strided:
            batch.weights = batch.weights.repeat_interleave(2, 1)[:, ::2]
        loss, _ = run_loss(batch, reduction="none")
        posterior, _ = run_posterior(batch, torch.ones_like(batch.logits))
        assert (loss == loss[0]).all()
        assert (posterior == posterior[0]).all()


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
def test_undecided_entries_of_both_signs_in_a_warp(size, slack):
    """Weights of one part each next to even ones, so that samples of a warp differ."""
    batch = batch_of(*size, 0.001, seed=8)
    batch.slack += slack
    batch.weights[::3] = torch.eye(size[2])[torch.arange(13) % size[2]]
    check_both(batch)


@pytest.mark.parametrize("size", [size for size in SIZES if size[2] <= 20])
@pytest.mark.parametrize("off", [-2e-3, -1e-4, -1e-6, 0.0, 1e-6, 1e-4])
def test_entries_near_zero(size, off):
    """Even weights: each entry of the first row is `off`, one apart from which is large."""
    batch = batch_of(*size, 0.0, seed=9)
    batch.weights[:] = 1 / size[2]
    batch.slack[0] = off - batch.parts[:, 0].mean(0)
    batch.slack[0, -1] += 0.5
    check_posterior(batch)  # of the slack's gradient rounding may leave out an entry


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
    for value in (-1.0, 0.0, 1.0):  # of the rest of the slack
        batch = batch_of(*size, 0.0, seed=6)
        batch.slack += value
        tensor = getattr(batch, name)
        tensor[(0,) * tensor.dim()] = math.nan
        loss, _ = run_loss(batch, reduction="none")
        posterior, _ = run_posterior(batch, torch.ones_like(batch.logits))
        bad = slice(0, 1) if name == "weights" else slice(None)
        assert loss[bad].isnan().all()
        assert posterior[bad].isnan().any(1).all()
        if name == "weights":
            assert loss[1:].isfinite().all()


@sizes
def test_results_repeat(size):
    batch = batch_of(*size, 0.01, seed=7)
    first, second = (run_loss(batch, seed=s, switch_probability=0.1)[0] for s in (0, 1))
    assert torch.equal(first, second)


@pytest.mark.parametrize("undecided", [0, 1, 2, 3, 4, 5, 6, 7, 99, 100])
@pytest.mark.parametrize("r", [2, 20])
def test_numbers_of_undecided_entries(undecided, r):
    """Lanes test some at a time, and the last of them together with nothing."""
    batch = batch_of(37, 10, r, 0.0, seed=12)
    for e in torch.randperm(100, generator=torch.Generator().manual_seed(undecided))[:undecided]:
        i, k = divmod(int(e), 10)
        batch.slack[i, k] = -batch.parts[:, i, k].quantile(0.3)
    check_posterior(batch)


def apart(tensor):
    """Every other number of every third row."""
    wide = tensor.new_full((3 * tensor.shape[0], 2 * tensor.shape[1] + 1), math.nan)
    wide[::3, 1::2] = tensor
    return wide[::3, 1::2]


def off_a_boundary(tensor):
    return torch.cat([torch.zeros(1), tensor.flatten()])[1:].view(tensor.shape)


@pytest.mark.parametrize("layout", [torch.clone, apart, off_a_boundary])
@pytest.mark.parametrize("r", [1, 2, 7, 16, 19, 20])
@pytest.mark.parametrize(("n", "c"), [(0, 10), (1, 10), (16, 3), (17, 9), (67, 10)])
def test_layouts_of_weights_and_labels(n, c, r, layout):
    batch = batch_of(n, c, r, 0.02, seed=13)
    batch.weights = layout(batch.weights)
    check_both(batch)
    batch.labels = batch.labels.int()
    check_posterior(batch)
    batch.labels = torch.stack([batch.labels, batch.labels + 1000], 1)[:, 0]
    check_posterior(batch)
