"""The definition of simplex least squares in torch: optimal, within rounding."""

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.ops._interior_point import simplex_least_squares
from ptd_ext.transition._simplex_least_squares import kkt_residual


@pytest.mark.parametrize(("parts", "columns"), [(1, 2), (3, 5), (7, 4)])
def test_the_solution_is_optimal(parts, columns):
    g = new_generator(parts)
    factor = torch.randn(4, parts, parts, generator=g, dtype=torch.float64)
    gram = factor @ factor.mT / parts
    right = torch.randn(4, parts, columns, generator=g, dtype=torch.float64)
    rows = simplex_least_squares(gram, right)
    torch.testing.assert_close(rows.sum(2), torch.ones(4, parts, dtype=torch.float64))
    assert rows.min() >= 0
    assert kkt_residual(gram, right, rows).max() < 1e-9


def test_a_target_on_the_simplex_is_reached():
    g = new_generator(0)
    target = torch.rand(2, 3, 4, generator=g, dtype=torch.float64).softmax(2)
    gram = torch.eye(3, dtype=torch.float64).expand(2, 3, 3)
    torch.testing.assert_close(simplex_least_squares(gram, target), target, rtol=0, atol=1e-9)
