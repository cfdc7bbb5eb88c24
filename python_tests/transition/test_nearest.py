"""Nearest neighbours by cosine, found exactly."""

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.transition.nearest import nearest_neighbours


@pytest.mark.parametrize(("samples", "block"), [(2, 64), (97, 16), (700, 300), (700, 4096)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbours_are_the_nearest(samples, block, dtype):
    k = min(4, samples - 1)
    features = torch.randn(samples, 12, generator=new_generator(0), dtype=dtype)
    features += 0.5
    rows = torch.nn.functional.normalize(features.double())
    similar = (rows @ rows.T).fill_diagonal_(-2)
    expected = similar.topk(k).values
    found = nearest_neighbours(features, k, block=block)
    assert (found != torch.arange(samples)[:, None]).all()
    torch.testing.assert_close(similar.gather(1, found), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [
        (1e300, torch.float64),
        (1e-300, torch.float64),
        (1e35, torch.float32),
        (1e-40, torch.float32),
    ],
)
def test_rows_of_any_length_have_their_direction(scale, dtype):
    """Every second row is scaled, which changes no cosine but for rounding."""
    features = torch.randn(60, 12, generator=new_generator(0), dtype=torch.float64)
    rows = torch.nn.functional.normalize(features)
    similar = (rows @ rows.T).fill_diagonal_(-2)
    features[::2] *= scale
    found = nearest_neighbours(features.to(dtype), 3, block=16)
    nearest = similar.topk(3).values
    torch.testing.assert_close(similar.gather(1, found), nearest, rtol=0, atol=1e-4)


def test_equal_and_zero_features_have_neighbours_too():
    found = nearest_neighbours(torch.zeros(50, 3), 3, block=16)
    assert (found.sort(1).values.diff(dim=1) > 0).all()
    assert (found != torch.arange(50)[:, None]).all()
