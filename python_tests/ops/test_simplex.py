"""The quadratic problems as the operator takes them, and the step length that they allow."""

import pytest
import torch
from cases import normal

import ptd_ext
from ptd_ext.ops.simplex import WeightProblem, eigenvalue_bound


def gram_of(parts, rank, seed=0):
    basis = normal(2, parts, rank, dtype=torch.float64, seed=seed)
    return basis @ basis.mT


@pytest.mark.parametrize(("parts", "rank"), [(1, 1), (5, 2), (20, 40), (256, 3)])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e150])
def test_eigenvalue_bound(parts, rank, scale):
    """λ ≤ bound ≤ R^(1/32) λ, also where the square of an entry overflows."""
    matrix = gram_of(parts, rank)
    largest = torch.linalg.eigvalsh(matrix)[:, -1]
    ratio = eigenvalue_bound(scale * matrix) / scale / largest
    assert (ratio >= 1 - 1e-12).all()
    assert (ratio <= parts ** (1 / 32) + 1e-12).all()
    assert (eigenvalue_bound(torch.zeros(2, 3, 3)) == 0).all()


def test_centring_leaves_the_solution():
    """The image of h, h M + s b + shift, is h minus s times the gradient, up to a constant."""
    gram, linear = gram_of(6, 9), normal(2, 5, 6, dtype=torch.float64, seed=1)
    problem = WeightProblem.of(gram)
    weights = normal(2, 5, 6, dtype=torch.float64, seed=2).softmax(-1)
    offset = problem.step[:, None, None] * linear + problem.shift[:, None]
    found = weights @ problem.contraction + offset
    wanted = weights - problem.step[:, None, None] * (weights @ gram - linear)
    apart = found - wanted
    torch.testing.assert_close(apart, apart.mean(-1, keepdim=True).expand_as(apart))


def test_constant_gram_allows_any_step():
    """Centred, a constant matrix is zero: the objective is linear."""
    gram, linear = torch.full((3, 3), 7.0), torch.tensor([[0.0, 4.0, 1.0]])
    weights = ptd_ext.ops.simplex_weights(gram, linear, max_iter=1)
    torch.testing.assert_close(weights, torch.tensor([[0.0, 1.0, 0.0]]))
