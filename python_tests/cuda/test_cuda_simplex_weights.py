"""simplex_weights on CUDA, run by the emulator, against its definition."""

import math

import pytest
import torch
from emulator.harness import compiler
from emulator.operators import emulated
from random_numbers import new_generator

from ptd_ext.ops import reference
from ptd_ext.ops.simplex import WeightProblem

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
COUNTS = [1, 2, 8, 9, 10, 11, 16, 19, 20, 21, 27, 32, 33, 64, 256]
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def make_problem(parts, rows, batch=1, dtype=torch.float32, seed=0):
    """Arguments of the operator: contraction, step, shift, linear, and a start."""
    generator = new_generator(seed)

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    basis = normal(batch, parts, 30)
    x = normal(batch, rows, parts).mul(2).softmax(-1) @ basis + 0.1 * normal(batch, rows, 30)
    problem = WeightProblem.of(basis @ basis.mT)
    start = reference.simplex_projection(normal(batch, rows, parts))
    return [t.to(dtype) for t in (*problem, x @ basis.mT, start)]


def run(problem, steps, tolerance=0.0, seed=0):
    with emulated(seed=seed) as ops:
        return ops.simplex_weights(*problem, steps, float(tolerance))


def check(problem, steps, tolerance=0.0, seed=0):
    wanted = reference.simplex_weights(*problem, steps, tolerance)
    found = run(problem, steps, tolerance, seed)
    torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCE[found.dtype])


@each_dtype
@pytest.mark.parametrize("parts", COUNTS)
def test_against_definition(parts, dtype):
    for rows in (1, 5, 9, 17) if parts < 64 else (1, 5):
        problem = make_problem(parts, rows, dtype=dtype, seed=rows)
        check(problem, steps=4, seed=rows)
        check([*problem[:-1], None], steps=3, seed=rows)


@each_dtype
def test_blocks_and_batches(dtype):
    for parts, rows in ((10, 130), (20, 70), (30, 40)):
        check(make_problem(parts, rows, batch=3, dtype=dtype), steps=3)
    check(make_problem(40, 6, batch=2, dtype=dtype), steps=3)


@pytest.mark.parametrize("parts", [10, 20, 33])
def test_many_steps_reach_the_solution(parts):
    """After some steps only rows that have not converged are updated; float64 shows which."""
    problem = make_problem(parts, 7, dtype=torch.float64)
    wanted = reference.simplex_weights(*problem, 300, 1e-9)
    torch.testing.assert_close(run(problem, 300, 1e-9), wanted, rtol=0, atol=1e-8)


@each_dtype
@pytest.mark.parametrize("parts", [10, 20, 32])
@pytest.mark.parametrize(("steps", "tolerance"), [(12, 3e-2), (30, 1e-2), (10, 0.0), (30, 0.0)])
def test_restarts_and_stops(parts, steps, tolerance, dtype):
    """Steps that go up, rows that stop before others, and momentum that starts again."""
    problem = make_problem(parts, 40, dtype=torch.float64, seed=1)
    wanted = reference.simplex_weights(*problem, steps, tolerance)
    found = run([t.to(dtype) for t in problem], steps, tolerance)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("parts", [10, 20, 32])
def test_many_steps_of_floats_stay_at_the_solution(parts):
    problem = make_problem(parts, 70, dtype=torch.float64)
    wanted = reference.simplex_weights(*problem, 300, 1e-9)
    found = run([t.float() for t in problem], 300, 1e-6)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=2e-4)


@each_dtype
@pytest.mark.parametrize("parts", [1, 10, 20, 32, 40])
@pytest.mark.parametrize("scale", [1e8, 1e30])
def test_linear_terms_that_dwarf_the_simplex(parts, scale, dtype):
    """All weight goes to the largest, where 1 is less than the rounding of what it is taken off."""
    contraction, step, shift, linear, start = make_problem(parts, 9, dtype=dtype)
    wanted = torch.nn.functional.one_hot(linear.argmax(-1), parts).to(linear)
    for begin in (None, start):
        found = run([contraction, step, shift, scale * linear, begin], 3)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@each_dtype
@pytest.mark.parametrize("parts", [5, 20, 32, 40])
@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize("far", [-math.inf, -3e38])
def test_terms_that_are_out_of_reach(parts, steps, far, dtype):
    """They get no weight, and the weights of the others are as if they were not there."""
    for rows in (2, 9):
        problem = make_problem(parts, rows, dtype=dtype)
        linear = problem[3]
        linear[0, 1, 1:4] = -1e4
        wanted = run(problem, steps)
        linear[0, 1, 1:4] = far
        torch.testing.assert_close(run(problem, steps), wanted, rtol=0, atol=TOLERANCE[dtype])


@each_dtype
@pytest.mark.parametrize("parts", [10, 20, 32, 40])
@pytest.mark.parametrize("given", [3, 4], ids=["linear", "start"])
@pytest.mark.parametrize(("steps", "tolerance"), [(1, 0.0), (6, 0.0), (6, 10.0)])
def test_nan_stays_in_its_row(parts, given, steps, tolerance, dtype):
    problem = make_problem(parts, 9, dtype=dtype)
    clean = run(problem, steps, tolerance)
    problem[given][0, 2, 1] = torch.nan
    spoilt = run(problem, steps, tolerance)
    assert spoilt[0, 2].isnan().all()
    others = torch.arange(9) != 2
    assert torch.equal(spoilt[0, others], clean[0, others])


@each_dtype
@pytest.mark.parametrize("parts", [10, 20, 32, 33])
def test_order_of_threads_does_not_matter(parts, dtype):
    problem = make_problem(parts, 9, dtype=dtype)
    first = run(problem, 4)
    for seed in range(1, 4):
        assert torch.equal(run(problem, 4, seed=seed), first)
