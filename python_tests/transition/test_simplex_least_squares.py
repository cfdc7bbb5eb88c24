"""Least squares with rows on the simplex: the operator against its definition in torch."""

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.ops import reference
from ptd_ext.ops.reference import simplex_least_squares as interior_point
from ptd_ext.transition import _simplex_least_squares as least_squares
from ptd_ext.transition._simplex_least_squares import kkt_residual

# P, R, K: one column, one part, columns that fill their vectors and that do not.
SIZES = [(1, 1, 1), (3, 1, 2), (2, 3, 1), (4, 2, 7), (3, 5, 8), (2, 20, 33), (1, 33, 16)]


def problems(size, *, rank=None, scale=1.0, seed=0):
    """G [P, R, R] of a given rank, and B [P, R, K]."""
    count, parts, columns = size
    g = new_generator(seed)
    root = torch.randn(count, rank or 2 * parts, parts, generator=g, dtype=torch.float64)
    right = scale * torch.randn(count, parts, columns, generator=g, dtype=torch.float64)
    return root.mT @ root / root.shape[1], right


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_against_definition(size, scale):
    gram, right = problems(size, scale=scale)
    found = torch.ops.ptd_ext.simplex_least_squares(gram, right)
    expected = interior_point(gram, right)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    rows = least_squares.simplex_least_squares(gram, right)
    torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))
    assert (rows >= 0).all()
    assert kkt_residual(gram, right, rows).max() < 1e-10 * max(1, scale)


@pytest.mark.parametrize("rank", [1, 3])
def test_singular_matrices(rank):
    """The minimum is not unique, but it is one."""
    gram, right = problems((3, 12, 10), rank=rank)
    rows = least_squares.simplex_least_squares(gram, gram @ right.softmax(-1))
    assert kkt_residual(gram, gram @ right.softmax(-1), rows).max() < 1e-7


def test_problems_do_not_see_each_other():
    gram, right = problems((7, 12, 33))  # worth several threads
    together = torch.ops.ptd_ext.simplex_least_squares(gram, right)
    pairs = zip(gram.split(1), right.split(1), strict=True)
    alone = [torch.ops.ptd_ext.simplex_least_squares(*pair) for pair in pairs]
    assert torch.equal(torch.cat(alone), together)
    torch.set_num_threads(3)
    assert torch.equal(torch.ops.ptd_ext.simplex_least_squares(gram, right), together)
    wrong = gram.clone()
    wrong[2] = torch.nan  # leaves the others as they are
    rest = [0, 1, 3, 4, 5, 6]
    found = torch.ops.ptd_ext.simplex_least_squares(wrong, right)
    assert torch.equal(found[rest], together[rest])


def test_layouts_and_sizes_of_zero():
    gram, right = problems((3, 5, 9))
    expected = torch.ops.ptd_ext.simplex_least_squares(gram, right)
    turned = right.mT.contiguous().mT
    assert torch.equal(torch.ops.ptd_ext.simplex_least_squares(gram, turned), expected)
    assert torch.ops.ptd_ext.simplex_least_squares(gram[:0], right[:0]).shape == (0, 5, 9)
    assert torch.ops.ptd_ext.simplex_least_squares(gram, right[..., :0]).shape == (3, 5, 0)


def test_opcheck():
    torch.library.opcheck(torch.ops.ptd_ext.simplex_least_squares, problems((2, 3, 5)))


def test_kkt_residual_of_a_point_that_is_not_the_minimum():
    gram, right = problems((7, 4, 5))
    rows = least_squares.simplex_least_squares(gram, right)
    assert kkt_residual(gram, right, torch.full_like(rows, 0.2)).min() > 1e-3
    torch.testing.assert_close(reference.simplex_projection(rows), rows)


def test_errors():
    gram, right = problems((2, 3, 5))
    op = torch.ops.ptd_ext.simplex_least_squares
    for arguments, message in (
        ((gram, right[0]), r"right must be \[P, R, K\], float64; got \[3, 5\], float64"),
        ((gram, right.float()), r"right must be \[P, R, K\], float64; got \[2, 3, 5\], float32"),
        ((gram[:1], right), r"gram must be \[2, 3, 3\], float64, .*; got \[1, 3, 3\], float64"),
        ((gram.float(), right), r"gram must be \[2, 3, 3\], float64, .*, float32, on cpu"),
    ):
        with pytest.raises(RuntimeError, match=f"simplex_least_squares: {message}"):
            op(*arguments)


@pytest.mark.parametrize("columns", [2, 7, 33])
def test_without_a_quadratic_term_every_row_is_a_corner(columns):
    """The start must be an interior point: with nothing else, its slopes alone are the matrix."""
    _, right = problems((3, 4, columns))
    rows = torch.ops.ptd_ext.simplex_least_squares(torch.zeros(3, 4, 4).double(), right)
    corners = torch.nn.functional.one_hot(right.argmax(-1), columns).double()
    torch.testing.assert_close(rows, corners, rtol=0, atol=1e-6)


def test_without_equations_every_row_is_a_point_of_the_simplex():
    gram, right = torch.zeros(2, 3, 3).double(), torch.zeros(2, 3, 4).double()
    found = least_squares.simplex_least_squares(gram, right)
    assert (found >= 0).all()
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 3).double())
