"""The approximation error of an estimate, against rows that the noise was drawn from."""

import pytest
import torch
from cases import simplex_projection
from random_numbers import new_generator

import ptd_ext
from ptd_ext.ops import reference
from ptd_ext.transition.metrics import approximation_error

G = new_generator(0)
PARTS = torch.rand(4, 3, 3, generator=G, dtype=torch.float64).softmax(-1)
SLACK = 0.2 * torch.randn(3, 3, generator=G, dtype=torch.float64)
WEIGHTS = simplex_projection(torch.randn(50, 4, generator=G, dtype=torch.float64))


@pytest.mark.parametrize("slack", [None, SLACK, SLACK - 2])
@pytest.mark.parametrize("weights", [WEIGHTS, None])
def test_approximation_error(weights, slack):
    labels = torch.arange(50) % 3
    rows = torch.rand(50, 3, generator=new_generator(2)).softmax(1)
    parts = PARTS if weights is not None else PARTS[0]
    matrix = reference.transition_matrix(weights, parts, slack).expand(50, 3, 3)
    expected = (rows - matrix[torch.arange(50), labels]).abs().sum(1).mean().item()
    found = approximation_error(rows, labels, weights, parts, slack)
    assert found == pytest.approx(expected, rel=1e-6)


def test_approximation_error_of_the_truth_is_zero():
    made = ptd_ext.noise.symmetric_noise(torch.arange(60) % 3, 0.3, random_state=0)
    matrix = torch.full((3, 3), 0.15).fill_diagonal_(0.7)
    assert approximation_error(made.rows, made.labels, None, matrix) < 1e-6
    flipped = matrix[:, [1, 2, 0]]
    assert approximation_error(made.rows, made.labels, None, flipped) == pytest.approx(
        1.1, abs=1e-6
    )


def test_approximation_error_raises():
    rows, labels = torch.rand(50, 3), torch.arange(50) % 3
    for arguments, message in (
        ((rows, labels, WEIGHTS, PARTS[0]), r"parts must be \[R, 3, 3\]; got \[3, 3\]"),
        ((rows, labels, None, PARTS), r"parts must be \[3, 3\]; got \[4, 3, 3\]"),
        ((rows, labels[:4], WEIGHTS, PARTS), r"labels must be \[50\] and not empty; got \[4\]"),
        ((rows, labels, WEIGHTS[:4], PARTS), r"weights must be \[50, 4\]; got \[4, 4\]"),
    ):
        with pytest.raises(ValueError, match=message):
            approximation_error(*arguments)
