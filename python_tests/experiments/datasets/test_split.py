"""The split of data that have no test part."""

import pytest
import torch

from ptd_ext.experiments.datasets.split import split


@pytest.mark.parametrize(("samples", "test", "held"), [(10, 3, 3), (10, 0, 1), (2, 9, 1)])
def test_parts_are_disjoint_and_sorted(samples, test, held):
    train, out = split(samples, test, seed=1)
    assert len(out) == held
    assert torch.equal(torch.cat([train, out]).sort().values, torch.arange(samples))
    assert torch.equal(train, train.sort().values)
    assert torch.equal(out, out.sort().values)


def test_the_seed_decides():
    assert torch.equal(split(50, 10, 3)[1], split(50, 10, 3)[1])
    assert not torch.equal(split(50, 10, 3)[1], split(50, 10, 4)[1])
    with pytest.raises(ValueError, match=r"At least 2 samples .*; got 1"):
        split(1, 1, 0)
