"""Row sums of T(x) + slack, clamped at zero, on CUDA: what the losses keep for their gradients."""

import itertools
import math

import pytest
import torch
from cases import uniform
from cuda_cases import NAMES, batch_of, near, off_a_boundary, run_loss, run_row_sums
from emulator.harness import compiler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

FLOAT, DOUBLE = torch.float32, torch.float64
SIZES = [(129, 11, 20), (130, 12, 3), (3, 100, 20), (5, 33, 49), (2, 16, 97), (1, 260, 2)]
SIZES += [(7, 2, 1)]
sizes = pytest.mark.parametrize("size", SIZES)
dtypes = pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])


def define(batch):
    parts = batch.parts.double()
    matrix = parts[None] if batch.weights is None else None
    if matrix is None:
        matrix = torch.einsum("nj,jik->nik", batch.weights.double(), parts)
    entries = matrix + batch.slack.double()
    return torch.where(entries <= 0, 0, entries).sum(-1).expand(batch.logits.shape)


def check(batch, **options):
    found = run_row_sums(batch, **options)
    tolerance = 1e-12 if found.dtype is DOUBLE else 3e-6
    scale = 1 + batch.slack.abs().nan_to_num(0, 0, 0).sum(-1).max().item()
    torch.testing.assert_close(
        found.double(), define(batch), rtol=tolerance, atol=tolerance * scale, equal_nan=True
    )
    return found


@sizes
@dtypes
@pytest.mark.parametrize("scale", [0.003, 0.05, 2.0])
def test_sizes(size, dtype, scale):
    check(batch_of(*size, scale, dtype))


@pytest.mark.parametrize("n", [1, 31, 127, 128, 257])
@dtypes
def test_samples(n, dtype):
    check(batch_of(n, 13, 5, 0.05, dtype, seed=n))


@pytest.mark.parametrize("n", [1, 2, 5, 127, 128, 131, 257])
@pytest.mark.parametrize("c", [2, 3, 12, 13])
@dtypes
def test_entries_that_are_never_clamped(n, c, dtype):
    batch = batch_of(n, c, 5, 0.0, dtype, seed=n)
    batch.slack += uniform(c, c)
    check(batch)


@pytest.mark.parametrize(
    ("row", "column"), [(0, 0), (5, 127), (127, 128), (128, 130), (130, 0), (130, 130)]
)
def test_one_entry_that_is_clamped_in_some_samples(row, column):
    """It changes the sum of its own row and of no other, wherever it is."""
    batch = batch_of(5, 131, 3, 0.0, seed=10)
    batch.parts[:, row, column] = torch.tensor([0.1, 0.5, 0.9])
    before = check(batch)
    batch.slack[row, column] = -0.5
    after = check(batch)
    others = torch.arange(131) != row
    torch.testing.assert_close(after[:, others], before[:, others])
    assert (after[:, row] < before[:, row]).all()


@pytest.mark.parametrize(
    ("c", "r"), [*itertools.product([12, 13], [1, 2, 7, 8, 9, 23, 25]), (128, 9), (128, 24)]
)
@dtypes
def test_parts(c, r, dtype):
    check(batch_of(3, c, r, 0.05, dtype, seed=r))


def test_many_samples():
    check(batch_of(80 * 128 + 5, 2, 1, 0.5), check=False)


def test_no_samples():
    assert run_row_sums(batch_of(0, 13, 5, 0.05)).shape == (0, 13)


@dtypes
def test_one_matrix(dtype):
    check(batch_of(130, 13, 0, 0.05, dtype))


@sizes
@dtypes
def test_rows_of_every_kind(size, dtype):
    """Never clamped, always clamped, clamped in some samples, and mixed."""
    batch = batch_of(*size, 0.0, dtype, seed=2)
    batch.parts = (batch.parts + 0.1) / (1 + 0.1 * size[1])
    batch.slack[0] = -2.0
    batch.slack[1] = -0.05
    batch.slack[2:, ::2] = -0.3
    batch.slack[3:, 1::2] = -1.5
    assert (check(batch)[:, 0] == 0).all()


@sizes
@dtypes
def test_entries_on_the_border(size, dtype):
    batch = batch_of(*size, 0.0, dtype, seed=3)
    low, high = batch.parts.amin(0), batch.parts.amax(0)
    batch.slack = torch.where(uniform(*low.shape) < 0.5, -low, -high).contiguous()
    check(batch)


@dtypes
@pytest.mark.parametrize("factor", [0.0, 0.5, 0.99, 1.5, -1.0, math.nan, math.inf])
def test_weights_off_the_simplex(dtype, factor):
    """Samples that are not near theirs are as before."""
    batch = batch_of(300, 12, 5, 0.0, dtype, seed=4)
    batch.slack -= 0.04  # what is clamped depends on the sum of the weights
    before = check(batch)
    batch.weights[140] *= factor
    after = check(batch)
    assert torch.equal(before[:128], after[:128])
    assert torch.equal(before[256:], after[256:])


@dtypes
def test_negative_weights(dtype):
    batch = batch_of(130, 11, 5, 0.02, dtype, seed=5)
    batch.weights[7, 0] -= 3.0  # the sum stays
    batch.weights[7, 1] += 3.0
    check(batch)


@dtypes
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["parts", "slack"])
@pytest.mark.parametrize("rest", [-1.0, 0.0, 1.0])
def test_not_finite(dtype, value, name, rest):
    batch = batch_of(37, 12, 5, 0.0, dtype, seed=6)
    batch.slack += rest
    batch.weights[3] = torch.eye(5, dtype=dtype)[2]  # weights of zero
    tensor = getattr(batch, name)
    tensor[(1,) * tensor.dim()] = value
    check(batch)


@dtypes
@pytest.mark.parametrize("c", [12, 13])
def test_layouts(dtype, c):
    batch = batch_of(131, c, 6, 0.05, dtype, seed=7)
    expected = check(batch)
    batch.weights = torch.stack([batch.weights, batch.weights], -1)[..., 0]
    batch.slack = batch.slack.mT.contiguous().mT
    assert torch.equal(check(batch), expected)


def by_column_off_a_boundary(parts):
    """The parts in the layout that the kernels read as it is, one number off a boundary."""
    return off_a_boundary(parts.permute(2, 0, 1)).permute(1, 2, 0)


@dtypes
@pytest.mark.parametrize("scale", [0.0, 0.05])
def test_parts_off_a_boundary(dtype, scale):
    batch = batch_of(131, 12, 6, scale, dtype, seed=9)
    expected = check(batch)
    batch.parts = by_column_off_a_boundary(batch.parts)
    assert torch.equal(check(batch), expected)


@pytest.mark.parametrize("c", [10, 12, 36, 130])
def test_sums_off_a_boundary(c):
    """The gradients are the same if the saved row sums begin off a 16-byte boundary."""
    batch = batch_of(9, c, 3, 0.05)
    _, expected = run_loss(batch, wanted=NAMES)
    _, grads = run_loss(batch, wanted=NAMES, saved_layout=off_a_boundary)
    for name, grad in grads.items():
        near(grad, expected[name], 1e-6)


@dtypes
@pytest.mark.parametrize("size", [(130, 12, 5), (3, 33, 47)])
@pytest.mark.parametrize("scale", [0.0, 0.02])
def test_results_repeat(dtype, size, scale):
    batch = batch_of(*size, scale, dtype, seed=8)
    first, second = (run_row_sums(batch, seed=s, switch_probability=0.1) for s in (0, 1))
    assert torch.equal(first, second)
