"""Projection onto the simplex."""

import pytest
import torch
from cases import each_device
from random_numbers import new_generator
from torch import inf, nan

import ptd_ext
from ptd_ext.ops import reference

each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
LENGTHS = [1, 2, 3, 7, 10, 16, 20, 31, 33, 100, 255, 256, 257, 1000, 5003]
TOLERANCE = {torch.float64: 1e-14, torch.float32: 1e-6}


def normal(*shape, dtype=torch.float64, device="cpu", seed=0):
    generator = new_generator(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(device, dtype)


@each_device
@each_dtype
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("scale", [1e-5, 0.1, 1.0, 1e4])
def test_against_definition(length, scale, dtype, device):
    x = scale * normal(37, length, dtype=dtype, device=device)
    near = {"rtol": 0, "atol": TOLERANCE[dtype]}
    ours = ptd_ext.ops.simplex_projection(x)
    torch.testing.assert_close(ours, reference.simplex_projection(x), **near)
    assert (ours.double().sum(-1) - 1).abs().max() <= 4 * TOLERANCE[dtype]
    assert (ours >= 0).all()


@each_device
@each_dtype
def test_is_the_nearest_point(dtype, device):
    """KKT: x − p is constant on the support and smaller off it."""
    x = normal(100, 30, dtype=dtype, device=device)
    p = ptd_ext.ops.simplex_projection(x)
    theta = (x - p).amax(-1, keepdim=True)
    slack = torch.where(p > 0, (x - p - theta).abs(), (x - theta).clamp(min=0))
    assert slack.max() <= 4 * TOLERANCE[dtype]
    assert (p == 0).any(-1).all()  # exact zeros


@each_device
@each_dtype
def test_points_of_the_simplex_stay(dtype, device):
    x = normal(50, 12, dtype=dtype, device=device).softmax(-1)
    torch.testing.assert_close(ptd_ext.ops.simplex_projection(x), x, rtol=0, atol=TOLERANCE[dtype])
    vertex = torch.eye(5, dtype=dtype, device=device)
    assert torch.equal(ptd_ext.ops.simplex_projection(vertex), vertex)


@each_device
def test_shapes_layouts_and_types(device):
    x = normal(3, 4, 5, device=device)
    expected = reference.simplex_projection(x)
    torch.testing.assert_close(ptd_ext.ops.simplex_projection(x), expected)
    strided = x.transpose(0, 2).contiguous().transpose(0, 2)
    torch.testing.assert_close(ptd_ext.ops.simplex_projection(strided), expected)
    torch.testing.assert_close(ptd_ext.ops.simplex_projection(x[1, 2]), expected[1, 2])
    assert ptd_ext.ops.simplex_projection(x[:0]).shape == (0, 4, 5)
    for half in (torch.float16, torch.bfloat16):
        projected = ptd_ext.ops.simplex_projection(x.to(half))
        assert projected.dtype == torch.float32
        torch.testing.assert_close(projected, reference.simplex_projection(x.to(half).float()))


@each_device
@pytest.mark.parametrize("row", [[1e38, 0.0, *[-1e38] * 5], [0.0, 0.5, *[-3e38] * 4]])
def test_sums_that_would_overflow(row, device):
    x = torch.tensor([row], device=device)
    truth = reference.simplex_projection(x.double())
    for projected in (ptd_ext.ops.simplex_projection(x), reference.simplex_projection(x)):
        torch.testing.assert_close(projected.double(), truth)


INFINITE = [
    ([inf, 3.0, 1e30], [1.0, 0.0, 0.0]),
    ([inf, 3.0, inf], [0.5, 0.0, 0.5]),
    ([inf, -inf, 0.0], [1.0, 0.0, 0.0]),
    ([-inf, 0.2, 0.2], [0.0, 0.5, 0.5]),
    ([-inf, -inf, -inf], [1 / 3, 1 / 3, 1 / 3]),
    ([1e38, -1e38, 1e38], [0.5, 0.0, 0.5]),
]


@each_device
@pytest.mark.parametrize("padding", [0, 40, 400])
def test_infinities_are_limits_and_nan_stays_in_its_row(padding, device):
    def padded(row, fill):
        return [*row, *[fill] * padding]

    rows = torch.tensor([padded(row, -inf) for row, _ in INFINITE], device=device)
    wanted = torch.tensor([padded(row, 0.0) for _, row in INFINITE], device=device)
    if padding:  # a row of nothing but −∞ is uniform over all of it
        wanted[4] = 1 / (3 + padding)
    rows = torch.cat([rows, torch.zeros_like(rows[:1])])
    rows[-1, 1] = nan
    projected = ptd_ext.ops.simplex_projection(rows)
    torch.testing.assert_close(projected[:-1], wanted)
    torch.testing.assert_close(projected, reference.simplex_projection(rows), equal_nan=True)
    assert projected[-1].isnan().all()
    grad = torch.ops.ptd_ext.simplex_projection_backward(torch.ones_like(rows), projected)
    assert grad[:-1].isfinite().all()
    assert grad[-1].isnan().all()


@each_device
@each_dtype
@pytest.mark.parametrize("length", [1, 2, 17, 33, 300])
def test_gradient(length, dtype, device):
    x = normal(19, length, dtype=dtype, device=device).requires_grad_()
    outer = normal(19, length, dtype=dtype, device=device, seed=1)
    ours, theirs = (
        torch.autograd.grad(project(x), x, outer)[0]
        for project in (ptd_ext.ops.simplex_projection, reference.simplex_projection)
    )
    torch.testing.assert_close(ours, theirs)


@each_device
def test_jacobian(device):
    """I − 11ᵀ/|A| on the support A, zero off it."""
    x = normal(9, device=device)
    on = (ptd_ext.ops.simplex_projection(x) > 0).double()
    jacobian = torch.autograd.functional.jacobian(ptd_ext.ops.simplex_projection, x)
    torch.testing.assert_close(jacobian, on.diag() - torch.outer(on, on) / on.sum())


@each_device
def test_gradcheck(device):
    x = normal(6, 7, device=device).requires_grad_()
    assert torch.autograd.gradcheck(ptd_ext.ops.simplex_projection, x)
    assert torch.autograd.gradgradcheck(ptd_ext.ops.simplex_projection, x)


@each_device
@each_dtype
def test_opcheck(dtype, device):
    x = normal(2, 3, 6, dtype=dtype, device=device)
    ops = torch.ops.ptd_ext
    for grad in (False, True):
        torch.library.opcheck(ops.simplex_projection, (x.clone().requires_grad_(grad),))
    projected = ops.simplex_projection(x)
    torch.library.opcheck(ops.simplex_projection_backward, (x.clone(), projected))


def test_compile_and_transforms():
    x = normal(5, 8).requires_grad_()
    compiled = torch.compile(ptd_ext.ops.simplex_projection, fullgraph=True)
    expected = ptd_ext.ops.simplex_projection(x)
    torch.testing.assert_close(compiled(x), expected)
    outer = normal(5, 8, seed=1)
    torch.testing.assert_close(
        *(torch.autograd.grad(y, x, outer)[0] for y in (compiled(x), expected))
    )
    plain = x.detach()
    for project in (ptd_ext.ops.simplex_projection, torch.ops.ptd_ext.simplex_projection):
        mapped = torch.func.vmap(project, in_dims=1, out_dims=1)(plain.T)
        torch.testing.assert_close(mapped, expected.detach().T)
    rows = torch.func.vmap(torch.func.jacrev(ptd_ext.ops.simplex_projection))(plain)
    torch.testing.assert_close(
        torch.einsum("nij,nj->ni", rows, outer),
        torch.autograd.grad(ptd_ext.ops.simplex_projection(x), x, outer)[0],
    )
    _, tangent = torch.func.jvp(ptd_ext.ops.simplex_projection, (plain,), (outer,))
    torch.testing.assert_close(tangent, torch.einsum("nij,nj->ni", rows, outer))


def test_rows_do_not_depend_on_each_other():
    x = normal(100, 20, dtype=torch.float32)
    together = ptd_ext.ops.simplex_projection(x)
    assert torch.equal(together[57:], ptd_ext.ops.simplex_projection(x[57:]))
    assert torch.equal(together, ptd_ext.ops.simplex_projection(x.flip(0)).flip(0))


def test_slow_rows_end():
    """Rows on which each step of Newton's method removes few entries."""
    for ratio in (0.5, 0.9, 0.999):
        row = -(ratio ** torch.arange(2000, dtype=torch.float64))
        for dtype in (torch.float32, torch.float64):
            x = (1000 * row).to(dtype)[None]
            torch.testing.assert_close(
                ptd_ext.ops.simplex_projection(x), reference.simplex_projection(x)
            )


def test_errors():
    for shape in ((), (3, 0)):
        with pytest.raises(RuntimeError, match=r"x must be \[..., R\] with R at least 1; got"):
            ptd_ext.ops.simplex_projection(torch.zeros(shape))
    with pytest.raises(RuntimeError, match="x must be float32 or float64; got int64"):
        ptd_ext.ops.simplex_projection(torch.ones(3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match=r"grad must have the shape and type of projected"):
        torch.ops.ptd_ext.simplex_projection_backward(torch.ones(2), torch.ones(3))
