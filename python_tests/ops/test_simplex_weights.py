"""The weight step: quadratics on the simplex, one for each row."""

from math import inf

import pytest
import torch
from cases import each_device, normal_like, uniform
from random_numbers import new_generator

import ptd_ext
from ptd_ext.ops import reference, simplex_weights
from ptd_ext.ops.simplex import WeightProblem, eigenvalue_bound

each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
COUNTS = [1, 2, 3, 5, 7, 10, 16, 20, 33, 64, 256]


def make_problem(parts, rows=50, features=40, offset=0.0, scale=1.0, seed=0):
    """Gram matrix [R, R] and linear terms [N, R] of mixtures of random parts, in float64."""
    generator = new_generator(seed)
    basis = torch.randn(parts, features, dtype=torch.float64, generator=generator)
    mix = torch.rand(rows, parts, dtype=torch.float64, generator=generator) ** 4
    x = mix / mix.sum(-1, keepdim=True) @ basis
    x += 0.1 * torch.randn(rows, features, dtype=torch.float64, generator=generator)
    basis, x = scale * (basis + offset), scale * (x + offset)
    return basis @ basis.T, x @ basis.T


def objective(gram, linear, weights):
    return (0.5 * weights @ gram * weights - linear * weights).sum(-1)


def residual(gram, linear, weights):
    """How far from optimal: ‖projection(h − ∇/L) − h‖∞ for each row, L the step that is taken."""
    centred = gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()
    length = 1 / eigenvalue_bound(centred[None]).clamp(min=1e-300)
    gradient = weights @ gram - linear
    gradient = gradient - gradient.mean(-1, keepdim=True)
    moved = reference.simplex_projection(weights - length * gradient)
    return (moved - weights).abs().amax(-1)


@each_device
@each_dtype
@pytest.mark.parametrize("parts", COUNTS)
def test_against_definition(parts, dtype, device):
    gram, linear = (t.to(device, dtype) for t in make_problem(parts))
    start = reference.simplex_projection(normal_like(linear)[None])
    problem = WeightProblem.of(gram[None])
    for begin in (None, start):
        for steps in (0, 1, 2, 7):
            ours = problem.solve(linear[None], begin, steps, 0.0)
            theirs = reference.simplex_weights(*problem, linear[None], begin, steps, 0.0)
            tolerance = 1e-12 if dtype is torch.float64 else 2e-5
            torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@each_device
@each_dtype
@pytest.mark.parametrize("parts", COUNTS)
def test_optimality(parts, dtype, device):
    gram, linear = make_problem(parts)
    weights = simplex_weights(
        gram.to(device, dtype), linear.to(device, dtype), max_iter=5000, tol=1e-7
    )
    weights = weights.cpu().double()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[:, 0]), rtol=0, atol=1e-6)
    assert (weights >= 0).all()
    assert residual(gram, linear, weights).max() < (3e-7 if dtype is torch.float64 else 3e-6)


@each_device
@each_dtype
@pytest.mark.parametrize("parts", [1, 2, 10, 20, 33])
@pytest.mark.parametrize("scale", [1e4, 1e8, 1e15, 1e30])
def test_linear_terms_that_dwarf_the_simplex(parts, scale, dtype, device):
    """All weight goes to the largest, where 1 is less than the rounding of what it is taken off."""
    gram, linear = make_problem(parts)
    largest = torch.nn.functional.one_hot(linear.argmax(-1), parts)
    linear = (scale * (linear + largest)).to(device, dtype)  # so that gram does not matter
    wanted = largest.to(linear)
    for start in (
        None,
        reference.simplex_projection(normal_like(linear)),
    ):
        weights = simplex_weights(gram.to(linear), linear, start, max_iter=3)
        torch.testing.assert_close(weights, wanted, rtol=0, atol=1e-5)


@each_device
@each_dtype
@pytest.mark.parametrize("steps", [1, 3, 20])
@pytest.mark.parametrize(
    "row",
    [
        [0.0, 1.0, -inf, 0.5],
        [1e38, -1e38, -1e38, -1e38],
        [0.0, 0.3, -3e38, -3e38],
        [3e38, -3e38, -3e38, 3e37],
    ],
)
def test_terms_that_are_out_of_reach(row, steps, dtype, device):
    """They get no weight, and the weights of the others are as if they were not there."""
    linear = torch.tensor([row], device=device, dtype=dtype)
    near = (linear - linear.max()).clamp(min=-100)  # a constant taken off all terms changes nothing
    gram = torch.eye(4, device=device, dtype=dtype)
    weights = simplex_weights(gram, linear, max_iter=steps)
    wanted = simplex_weights(gram, near, max_iter=steps)
    torch.testing.assert_close(weights, wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(weights.sum(), torch.ones_like(weights.sum()))


@each_device
@pytest.mark.parametrize("scale", [1e-5, 1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_scale_and_offset_do_not_matter(scale, offset, device):
    plain = simplex_weights(*make_problem(12), max_iter=2000, tol=1e-9)
    gram, linear = make_problem(12, scale=scale, offset=offset)
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 2e-3)):
        weights = simplex_weights(
            gram.to(device, dtype), linear.to(device, dtype), max_iter=2000, tol=1e-7
        )
        torch.testing.assert_close(weights.cpu().double(), plain, rtol=0, atol=tolerance)


@each_device
@each_dtype
def test_objective_never_rises(dtype, device):
    # Parts that resemble each other: momentum overshoots.
    gram, linear = make_problem(20, features=6)
    given = gram.to(device, dtype), linear.to(device, dtype)
    weights = reference.simplex_projection(normal_like(linear)).to(device, dtype)
    before = objective(gram, linear, weights.cpu().double())
    rounding = (1e-13 if dtype is torch.float64 else 2e-6) * gram.abs().max()
    one_by_one = weights
    for steps in range(1, 60):
        now = objective(
            gram, linear, simplex_weights(*given, weights, max_iter=steps).cpu().double()
        )
        assert (now <= before + rounding).all()
        before = torch.minimum(before, now)
        one_by_one = simplex_weights(*given, one_by_one, max_iter=1)
    # All steps in one call have momentum, and get further.
    single = objective(gram, linear, one_by_one.cpu().double())
    assert before.mean() <= single.mean() + rounding


@each_device
def test_leading_dimensions(device):
    problems = [make_problem(9, rows=21, seed=seed) for seed in range(6)]
    gram, linear = (
        torch.stack(t).to(device).reshape(2, 3, *t[0].shape) for t in zip(*problems, strict=True)
    )
    together = simplex_weights(gram, linear, max_iter=8)
    assert together.shape == (2, 3, 21, 9)
    for index, (g, b) in enumerate(problems):
        alone = simplex_weights(g.to(device), b.to(device), max_iter=8)
        torch.testing.assert_close(together[index // 3, index % 3], alone, rtol=0, atol=1e-14)
    strided = linear.transpose(-1, -2).contiguous().transpose(-1, -2)
    assert torch.equal(simplex_weights(gram, strided, max_iter=8), together)
    assert simplex_weights(gram, linear[..., :0, :]).shape == (2, 3, 0, 9)


@each_device
def test_rows_do_not_depend_on_each_other(device):
    gram, linear = (t.float().to(device) for t in make_problem(20, rows=101))
    together = simplex_weights(gram, linear, max_iter=300, tol=1e-5)
    for part in (slice(0, 1), slice(37, 101), slice(90, 95)):
        alone = simplex_weights(gram, linear[part], max_iter=300, tol=1e-5)
        assert torch.equal(together[part], alone)
    linear[40, 3] = torch.nan
    spoilt = simplex_weights(gram, linear, max_iter=300, tol=1e-5)
    assert spoilt[40].isnan().all()
    others = torch.arange(101) != 40
    assert torch.equal(spoilt[others], together[others])


@each_device
@each_dtype
def test_parts_that_are_alike(dtype, device):
    ones = torch.ones(4, 4, dtype=dtype, device=device)
    linear = torch.zeros(3, 4, dtype=dtype, device=device)
    assert (simplex_weights(ones, linear) == 0.25).all()
    # Linear objectives have their solution at a vertex.
    linear[:, 2] = 1
    weights = simplex_weights(0 * ones, linear)
    assert torch.equal(weights, torch.eye(4, dtype=dtype, device=device)[[2, 2, 2]])


def test_start_is_projected():
    gram, linear = make_problem(6)
    start = uniform(*linear.shape, dtype=linear.dtype, device=linear.device)
    torch.testing.assert_close(
        simplex_weights(gram, linear, start, max_iter=0),
        reference.simplex_projection(start),
    )


def test_several_threads():
    gram, linear = make_problem(10, rows=5000)
    alone = simplex_weights(gram, linear)
    torch.set_num_threads(3)
    assert torch.equal(simplex_weights(gram, linear), alone)


def test_eigenvalue_bound():
    for parts in (1, 5, 40):
        gram, _ = make_problem(parts)
        largest = torch.linalg.eigvalsh(gram)[-1]
        for scale in (1e-20, 1.0, 1e20):
            bound = eigenvalue_bound(scale * gram[None])[0] / scale
            assert largest * (1 - 1e-12) <= bound <= 1.13 * largest
    # All eigenvalues are equal, which is where the bound is farthest off: by R^(1/32).
    assert eigenvalue_bound(torch.eye(20)[None]).item() == pytest.approx(20 ** (1 / 32))
    assert eigenvalue_bound(torch.zeros(1, 3, 3)) == 0
    # Neither the square of its largest entry nor the inverse of its smallest is a float32.
    wide = torch.diag(torch.tensor([1e30, 1.0, 1e-30]))
    assert 1e30 <= eigenvalue_bound(wide[None]) <= 1.05e30


def test_no_gradient():
    gram, linear = make_problem(4)
    with pytest.raises(RuntimeError, match="simplex_weights is not differentiable: detach"):
        simplex_weights(gram, linear.requires_grad_())
    with torch.no_grad():
        simplex_weights(gram, linear)
    problem = WeightProblem.of(gram[None])
    weights = problem.solve(linear[None], None, 3, 0.0)
    with pytest.raises(RuntimeError, match="simplex_weights is not differentiable"):
        weights.sum().backward()


@each_device
def test_opcheck_and_compile(device):
    gram, linear = (t.to(device) for t in make_problem(5))
    arguments = (*WeightProblem.of(gram[None]), linear[None], None, 4, 0.0)
    torch.library.opcheck(torch.ops.ptd_ext.simplex_weights, arguments)
    compiled = torch.compile(ptd_ext.ops.simplex_weights, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(gram, linear), simplex_weights(gram, linear))


def test_errors():
    gram, linear = make_problem(4)
    with pytest.raises(ValueError, match=r"gram must be \[…, R, R\].*got \[4, 4\] and \[50, 3\]"):
        simplex_weights(gram, linear[:, :3])
    with pytest.raises(ValueError, match="tol must not be negative; got -1"):
        simplex_weights(gram, linear, tol=-1)
    with pytest.raises(RuntimeError, match="max_iter must not be negative; got -2"):
        simplex_weights(gram, linear, max_iter=-2)
    with pytest.raises(RuntimeError, match="must have 1 to 256 parts; got 257"):
        simplex_weights(torch.eye(257), torch.zeros(2, 257))
    with pytest.raises(RuntimeError, match="linear must be float32 or float64; got float16"):
        simplex_weights(gram.half(), linear.half())
    with pytest.raises(RuntimeError, match=r"contraction must be .*float64; got .*float32"):
        simplex_weights(gram.float(), linear)
