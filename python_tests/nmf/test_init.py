"""Initial parts: the sample they are chosen from, and their distances."""

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.nmf._data import open_rows
from ptd_ext.nmf._init import initial_parts, sample_rows
from ptd_ext.utils.distributed import Ranks


@pytest.mark.parametrize("split", [0, 1, 100, 399, 400])
@pytest.mark.parametrize("n_parts", [2, 20])  # a draw of rows, and all of them
def test_ranks_choose_among_the_same_rows(split, n_parts):
    """Every row of the sample comes from the one rank that holds it."""

    class Share(Ranks):
        def __init__(self, first):
            super().__init__()
            self.first_index = first

        def first_row(self, count, device):
            return self.first_index, 400

    x = torch.randn(400, 3, generator=new_generator(0))
    whole = sample_rows(open_rows(x), Ranks(), n_parts, 0)
    parts = [(x[:split], 0), (x[split:], split)]
    shares = [sample_rows(open_rows(rows), Share(first), n_parts, 0) for rows, first in parts]
    assert torch.equal(shares[0] + shares[1], whole)
    assert whole.shape == ((400, 3) if n_parts == 20 else (len(whole), 3))
    assert len(whole) > 90


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_first_parts_lie_far_apart(offset):
    """One row of each of some tight groups, whatever the seed."""

    g = new_generator(0)
    group = torch.arange(60) % 5
    rows = 10 * torch.eye(5, dtype=torch.float64)[group] * (1 + group[:, None]) + offset
    rows += 1e-3 * torch.randn(60, 5, generator=g, dtype=torch.float64)
    for parts in initial_parts(rows, 5, 20, seed=3):
        found = [int((rows - part).square().sum(1).argmin()) for part in parts]
        assert sorted(group[found].tolist()) == list(range(5))
