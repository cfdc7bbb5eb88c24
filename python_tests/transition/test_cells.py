"""Nearest neighbours inside cells."""

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.transition import cells
from ptd_ext.transition.cells import cell_neighbours
from ptd_ext.transition.nearest import nearest_neighbours
from ptd_ext.transition.similarity import directions


def clusters(samples, n_clusters=12, seed=0):
    g = new_generator(seed)
    centres = 4 * torch.randn(n_clusters, 10, generator=g)
    which = torch.randint(n_clusters, (samples,), generator=g)
    return directions(centres[which] + torch.randn(samples, 10, generator=g))


@pytest.mark.parametrize("samples", [2, 3, 97, 1000])
def test_in_all_cells_the_neighbours_are_the_nearest(samples, monkeypatch):
    monkeypatch.setattr(cells, "_BLOCK", 64)
    k = min(4, samples - 1)
    features = directions(clusters(samples).double())
    found = cell_neighbours(features, k, probes=samples)
    assert torch.equal(found, nearest_neighbours(features, k))


def test_most_neighbours_are_in_the_nearest_cells():
    features = clusters(3000)
    exact = nearest_neighbours(features, 4)
    recalls = []
    for probes in (1, 8):
        found = cell_neighbours(features, 4, probes=probes)
        assert (found != torch.arange(3000)[:, None]).all()
        assert (found.sort(1).values.diff(dim=1) > 0).all()
        recalls.append((exact[:, :, None] == found[:, None]).any(2).double().mean())
    assert recalls[0] < recalls[1]
    assert recalls[1] > 0.8


def test_two_calls_return_the_same():
    features = clusters(2000)
    assert torch.equal(cell_neighbours(features, 4), cell_neighbours(features, 4))


def test_a_sample_alone_in_its_cells_has_neighbours_too():
    features = clusters(400)
    features[7] = -directions(features.mean(0, keepdim=True))
    found = cell_neighbours(features, 30, probes=1)
    assert (found != torch.arange(400)[:, None]).all()
    assert (found.sort(1).values.diff(dim=1) > 0).all()


def test_equal_and_zero_features_have_neighbours_too():
    found = cell_neighbours(torch.zeros(300, 3), 3)
    assert (found.sort(1).values.diff(dim=1) > 0).all()
    assert (found != torch.arange(300)[:, None]).all()
