"""Directions, and the largest similarities of a row."""

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.transition.similarity import directions, largest


@pytest.mark.parametrize("columns", [5, 64, 333, 1024])
@pytest.mark.parametrize("k", [1, 4])
def test_the_largest_are_those_of_a_sort(columns, k):
    similar = torch.randn(20, columns, generator=new_generator(columns))
    values, places = largest(similar, k)
    assert torch.equal(values, similar.sort(1, descending=True).values[:, :k])
    assert torch.equal(similar.gather(1, places), values)


def test_directions_have_length_one_or_none():
    rows = torch.randn(6, 3, generator=new_generator(0))
    given = torch.diag(torch.tensor([1, 1e-38, 1e37, 0, 3, 1.0])) @ rows
    found = directions(given)
    expected = torch.nn.functional.normalize(rows)
    expected[3] = 0
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert directions(given.half()).dtype == torch.float32
    assert directions(given.double()).dtype == torch.float64
