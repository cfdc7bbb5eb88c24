"""project_transition on CUDA, run by the emulator, against its definition."""

import pytest
import torch
from cases import normal_like
from emulator.harness import compiler
from emulator.operators import emulated
from random_numbers import new_generator

from ptd_ext.ops import reference

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def matrix_of(rows, classes, dtype, seed=0):
    return torch.randn(rows, classes, dtype=dtype, generator=new_generator(seed))


def run(matrix, grad, **settings):
    """Return projection and gradient of rows [rows, C], padded to whole matrices for the call."""
    rows, classes = matrix.shape
    more = torch.ones(-rows % classes, classes, dtype=matrix.dtype)
    whole, grads = (torch.cat([t, more]).view(-1, classes, classes) for t in (matrix, grad))
    with emulated(**settings) as ops:
        results = ops.project_transition(whole), ops.project_transition_backward(grads, whole)
    return tuple(result.view(-1, classes)[:rows] for result in results)


def check(matrix, **settings):
    grad = normal_like(matrix)
    out, grad_matrix = run(matrix, grad, **settings)
    exact = matrix.double().requires_grad_()
    wanted = reference.project_transition(exact)
    wanted.backward(grad.double())
    near = {"rtol": TOLERANCE[matrix.dtype], "atol": TOLERANCE[matrix.dtype], "equal_nan": True}
    torch.testing.assert_close(out, wanted.detach().to(matrix.dtype), **near)
    # Gradients are divided by their row's sum, and so are their errors.
    sums = exact.detach().clamp(min=0).sum(-1, keepdim=True).nan_to_num(1).clamp(max=1)
    torch.testing.assert_close(grad_matrix.double() * sums, exact.grad * sums, **near)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [1, 2, 3, 7, 10, 14, 31, 33, 64, 65, 100, 128])
def test_short_rows(classes, dtype):
    for rows in (1, 31, 32, 33):
        check(matrix_of(rows, classes, dtype, seed=rows), seed=rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [129, 257, pytest.param(1100, marks=pytest.mark.slow)])
def test_long_rows(classes, dtype):
    check(matrix_of(3, classes, dtype), check=classes < 1000)


@pytest.mark.slow  # compiles the kernels once more
def test_many_rows():
    check(matrix_of(10_007, 10, torch.float32), check=False)


@pytest.mark.parametrize("classes", [4, 200])
def test_special_rows(classes):
    matrix = matrix_of(9, classes, torch.float32)
    matrix[0] = 0
    matrix[1] = -matrix[1].abs()
    matrix[2, 1] = torch.nan
    matrix[3, 0], matrix[3, 1:] = 1e-30, -1
    matrix[4] *= 1e4
    check(matrix)
    grad = torch.ones_like(matrix)
    out, grad_matrix = run(matrix, grad)
    torch.testing.assert_close(out[:2], torch.full_like(out[:2], 1 / classes))
    assert (grad_matrix[:2] == 0).all()
    assert out[2].isnan().all()
    assert not out[[*range(2), *range(3, 9)]].isnan().any()


@pytest.mark.parametrize("classes", [10, 130])
def test_order_of_threads_does_not_matter(classes):
    matrix, grad = matrix_of(9, classes, torch.float32), matrix_of(9, classes, torch.float32, 1)
    first = run(matrix, grad, seed=0)
    for seed in range(1, 4):
        for a, b in zip(first, run(matrix, grad, seed=seed), strict=True):
            assert torch.equal(a, b)
