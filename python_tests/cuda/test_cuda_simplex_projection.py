"""simplex_projection on CUDA, run by the emulator, against its definition."""

import pytest
import torch
from emulator.harness import compiler
from emulator.operators import emulated
from random_numbers import new_generator
from torch import inf, nan

from ptd_ext.ops import reference

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-14}
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=new_generator(seed))


def run(x, grad, **settings):
    """The projection of rows [rows, R], and its gradient."""
    with emulated(**settings) as ops:
        out = ops.simplex_projection(x)
        return out, ops.simplex_projection_backward(grad, out)


def check(x, **settings):
    grad = normal(*x.shape, dtype=x.dtype, seed=1)
    out, grad_x = run(x, grad, **settings)
    leaf = x.clone().requires_grad_()
    wanted = reference.simplex_projection(leaf)
    (wanted_grad,) = torch.autograd.grad(wanted, leaf, grad)
    near = {"rtol": 0, "atol": TOLERANCE[x.dtype]}
    torch.testing.assert_close(out, wanted.detach(), **near)
    torch.testing.assert_close(grad_x, wanted_grad, **near)


@each_dtype
@pytest.mark.parametrize("parts", range(1, 33))
def test_short_rows(parts, dtype):
    for rows in (1, 15, 31, 33):
        check(normal(rows, parts, dtype=dtype, seed=rows), seed=rows)


@each_dtype
@pytest.mark.parametrize("parts", [33, 64, 100, 256, 1000, 2500])
def test_long_rows(parts, dtype):
    check(normal(3, parts, dtype=dtype))


@pytest.mark.slow  # compiles the kernels once more
def test_many_rows():
    check(normal(2003, 10), check=False)


@each_dtype
@pytest.mark.parametrize("scale", [1e-5, 1e4])
def test_scales(scale, dtype):
    for parts in (10, 28, 40):
        check(scale * normal(9, parts, dtype=dtype))


@each_dtype
@pytest.mark.parametrize("padding", [0, 1, 5, 6, 12, 17, 20, 22, 25, 29, 60])
def test_infinities_are_limits_and_nan_stays_in_its_row(padding, dtype):
    x = torch.tensor(
        [[inf, 3, 1e30], [inf, 3, inf], [-inf, 0.2, 0.2], [-inf, -inf, -inf], [0, nan, 1]],
        dtype=dtype,
    )
    x = torch.cat([x, torch.full((5, padding), -inf, dtype=dtype)], -1)
    out, grad_x = run(x, torch.ones_like(x))
    torch.testing.assert_close(out, reference.simplex_projection(x), equal_nan=True)
    assert out[-1].isnan().all()
    assert grad_x[-1].isnan().all()
    assert grad_x[:-1].isfinite().all()


@pytest.mark.parametrize("parts", [10, 20, 28, 33, 256])
def test_order_of_threads_does_not_matter(parts):
    x, grad = normal(17, parts), normal(17, parts, seed=1)
    first = run(x, grad, seed=0)
    for seed in range(1, 4):
        for a, b in zip(first, run(x, grad, seed=seed), strict=True):
            assert torch.equal(a, b)
