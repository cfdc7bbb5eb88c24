"""T(x)ᵀ inverted on the simplex: the operator against its definition, and against the truth."""

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.ops import reference

OP = torch.ops.ptd_ext.invert_posterior
ITERATIONS, TOL = 500, 1e-6
# N, C, R: none, one row, one class, two, vectors that are full and that are not; 0: one matrix.
SIZES = [
    (0, 3, 0),
    (1, 1, 0),
    (1, 2, 0),
    (5, 3, 2),
    (7, 16, 0),
    (13, 33, 1),
    (11, 67, 0),
    (6, 70, 3),
]
each_type = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def simplex(g, *shape, spread=1.0):
    return (spread * torch.randn(*shape, generator=g, dtype=torch.float64)).softmax(-1)


def problem(samples, classes, parts, *, diagonal=0.6, spread=2.0, seed=0):
    """p that most often lies outside of what T can explain, h or None, and matrices."""
    g = new_generator(seed)
    count = max(1, parts)
    noise = simplex(g, count, classes, classes)
    matrices = diagonal * torch.eye(classes, dtype=torch.float64) + (1 - diagonal) * noise
    probs = simplex(g, samples, classes, spread=spread)
    return probs, simplex(g, samples, parts) if parts else None, matrices if parts else matrices[0]


def cast(tensors, dtype):
    return [None if tensor is None else tensor.to(dtype) for tensor in tensors]


def explained(clean, weights, parts):
    matrix = reference.transition_matrix(weights, parts)
    return (clean[:, :, None] * matrix).sum(1)


def optimality(probs, weights, parts, clean):
    """d of csrc/invert_posterior.h: not negative, and zero where g is positive, at the maximum."""
    matrix = reference.transition_matrix(weights, parts).expand(len(probs), -1, -1)
    q = explained(clean, weights, parts)
    return (matrix * (1 - probs / q)[:, None]).sum(2)


@each_type
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_against_definition(size, dtype):
    arguments = cast(problem(*size), dtype)
    found = OP(*arguments, ITERATIONS, TOL)
    expected = reference.invert_posterior(*cast(arguments, torch.float64), ITERATIONS, TOL)
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected.to(dtype), rtol=0, atol=1e-5)
    torch.testing.assert_close(found.sum(1), torch.ones(size[0], dtype=dtype))
    assert (found >= 0).all()


@pytest.mark.parametrize("size", [(50, 4, 0), (50, 30, 0), (30, 12, 3)], ids=str)
@pytest.mark.parametrize("diagonal", [0.1, 0.9])
def test_the_result_is_the_maximum(size, diagonal):
    arguments = problem(*size, diagonal=diagonal)
    clean = OP(*arguments, 5000, 1e-9)
    slope = optimality(*arguments, clean)
    assert slope.min() > -1e-6
    assert (slope * clean).abs().max() < 1e-6
    assert (clean == 0).any()  # the simplex matters


@each_type
def test_what_a_clean_posterior_explains_exactly_is_found(dtype):
    _, weights, parts = problem(40, 9, 2)
    truth = simplex(new_generator(1), 40, 9)
    noisy = explained(truth, weights, parts)
    found = OP(*cast((noisy, weights, parts), dtype), ITERATIONS, TOL)
    torch.testing.assert_close(found, truth.to(dtype), rtol=0, atol=2e-5)


@each_type
@pytest.mark.parametrize("classes", [2, 5, 40])
def test_the_identity_returns_p(classes, dtype):
    probs = simplex(new_generator(0), 9, classes, spread=4).to(dtype)
    probs[:, 0] = 0
    probs /= probs.sum(1, keepdim=True)
    found = OP(probs, None, torch.eye(classes, dtype=dtype), ITERATIONS, TOL)
    torch.testing.assert_close(found, probs, rtol=0, atol=1e-5)


@each_type
def test_zeros_in_p_and_in_the_matrix(dtype):
    g = new_generator(0)
    matrix = torch.eye(6, dtype=dtype) * 0.7 + torch.eye(6, dtype=dtype).roll(1, 1) * 0.3
    probs = simplex(g, 200, 6, spread=3).to(dtype)
    probs[torch.rand(200, 6, generator=g) < 0.5] = 0
    probs[probs.sum(1) == 0, 0] = 1
    probs /= probs.sum(1, keepdim=True)
    found = OP(probs, None, matrix, ITERATIONS, TOL)
    expected = reference.invert_posterior(probs.double(), None, matrix.double(), 5000, 1e-9)
    torch.testing.assert_close(found, expected.to(dtype), rtol=0, atol=1e-4)


@each_type
def test_a_singular_matrix_has_many_solutions_that_explain_p_alike(dtype):
    probs, _, matrix = problem(30, 8, 0)
    matrix[3], matrix[5] = matrix[2], matrix[2]
    arguments = cast((probs, None, matrix), dtype)
    found = OP(*arguments, ITERATIONS, TOL)
    best = reference.invert_posterior(probs, None, matrix, 5000, 1e-10)
    torch.testing.assert_close(
        explained(found, None, arguments[2]),
        explained(best, None, matrix).to(dtype),
        rtol=0,
        atol=1e-5,
    )


@each_type
def test_a_column_of_zeros_explains_nothing(dtype):
    matrix = torch.tensor([[0, 1.0, 0], [0, 0.8, 0.2], [0, 0.1, 0.9]], dtype=dtype)
    probs = torch.tensor([[1.0, 0, 0], [0.5, 0.4, 0.1]], dtype=dtype)
    found = OP(probs, None, matrix, ITERATIONS, TOL)
    torch.testing.assert_close(found[0], probs[0])
    # The other labels are explained as if they were all there is.
    rest = torch.tensor([[0, 0.8, 0.2]], dtype=dtype)
    torch.testing.assert_close(explained(found[1:], None, matrix), rest, rtol=0, atol=1e-4)


def test_a_class_that_a_model_rules_out_may_be_the_true_one():
    matrix = torch.tensor([[0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    found = OP(torch.tensor([[0.0, 1.0]]).double(), None, matrix, ITERATIONS, TOL)
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0]]).double(), rtol=0, atol=1e-5)


def test_rows_do_not_see_each_other():
    probs, weights, parts = problem(3001, 20, 2)  # worth several threads
    together = OP(probs, weights, parts, ITERATIONS, TOL)
    first = OP(probs[:1], weights[:1], parts, ITERATIONS, TOL)
    assert torch.equal(first, together[:1])
    torch.set_num_threads(3)
    probs[2] = torch.nan
    again = OP(probs, weights, parts, ITERATIONS, TOL)
    assert again[2].isnan().all()
    rest = torch.arange(3001) != 2
    assert torch.equal(again[rest], together[rest])


def test_layouts():
    probs, weights, parts = problem(9, 6, 3)
    expected = OP(probs, weights, parts, ITERATIONS, TOL)
    turned = [tensor.mT.contiguous().mT for tensor in (probs, weights, parts)]
    assert torch.equal(OP(*turned, ITERATIONS, TOL), expected)


def test_no_step_is_the_start_and_a_large_tolerance_keeps_it():
    probs, _, matrix = problem(4, 5, 0)
    start = OP(probs, None, matrix, 0, TOL)
    torch.testing.assert_close(start, 0.99 * probs + 0.002)
    assert torch.equal(OP(probs, None, matrix, 100, 1e3), start)
    assert not torch.equal(OP(probs, None, matrix, 1, TOL), start)


@pytest.mark.parametrize("parts", [0, 2])
def test_opcheck(parts):
    torch.library.opcheck(OP, (*problem(3, 5, parts), 3, 1e-3))


def test_no_gradient():
    probs, _, matrix = problem(3, 4, 0)
    result = OP(probs.requires_grad_(), None, matrix, 3, TOL)
    with pytest.raises(RuntimeError, match="invert_posterior is not differentiable"):
        result.sum().backward()


def test_errors():
    probs, weights, parts = problem(3, 4, 2)
    for arguments, sentence in (
        ((probs[0], None, parts[0]), r"probs must be \[N, C\], float32 or float64; got \[4\], fl"),
        ((probs.half(), None, parts[0]), r"probs must be .*; got \[3, 4\], float16"),
        ((probs[:, :0], None, parts[0]), r"probs must be .*; got \[3, 0\]"),
        ((probs, None, parts), r"parts must be \[4, 4\], float64; got \[2, 4, 4\]"),
        ((probs, None, parts[0].float()), r"parts must be \[4, 4\], float64; got .*float32"),
        ((probs, weights, parts[0]), r"parts must be \[1, 4, 4\], float64; got \[4, 4\]"),
        ((probs, weights[:2], parts), r"weights must be \[3, 2\], float64; got \[2, 2\]"),
        ((probs, weights.float(), parts), r"weights must be \[3, 2\], float64; got .*float32"),
    ):
        with pytest.raises(RuntimeError, match=f"invert_posterior: {sentence}"):
            OP(*arguments, ITERATIONS, TOL)
    with pytest.raises(RuntimeError, match="max_iter must not be negative; got -1"):
        OP(probs, None, parts[0], -1, TOL)
