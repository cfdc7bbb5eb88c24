"""Batch normalisation over ranks: with one rank it is torch's, statistics included."""

import pytest
import torch
from torch import nn

from ptd_ext.engine.training import batch_norm


@pytest.mark.parametrize("shape", [(7, 5), (6, 5, 4), (3, 5, 4, 2)])
@pytest.mark.parametrize("momentum", [0.1, 0.7, None])
@pytest.mark.parametrize("affine", [True, False])
def test_one_rank_is_torch(monkeypatch, shape, momentum, affine):
    """A momentum of None averages over all batches, whose number is tracked."""
    monkeypatch.setattr(batch_norm, "all_reduce", lambda tensor: tensor)
    kind = nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d
    theirs = kind(5, momentum=momentum, affine=affine, dtype=torch.float64)
    if affine:
        nn.init.normal_(theirs.weight)
        nn.init.normal_(theirs.bias)
    ours = batch_norm.over_ranks(nn.Sequential(kind(5, momentum=momentum, affine=affine)))[0]
    ours = ours.double()
    ours.load_state_dict(theirs.state_dict())
    for _ in range(3):
        x = torch.randn(shape, dtype=torch.float64) + 2
        first, second = x.clone().requires_grad_(), x.clone().requires_grad_()
        outer = torch.randn_like(x)
        torch.testing.assert_close(ours(first), theirs(second))
        torch.testing.assert_close(
            torch.autograd.grad(ours(first), first, outer),
            torch.autograd.grad(theirs(second), second, outer),
        )
        torch.testing.assert_close(dict(ours.state_dict()), dict(theirs.state_dict()))
    x = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    assert ours.num_batches_tracked == 6


def test_without_running_statistics(monkeypatch):
    monkeypatch.setattr(batch_norm, "all_reduce", lambda tensor: tensor)
    ours = batch_norm.over_ranks(nn.BatchNorm1d(3, track_running_stats=False))
    x = torch.randn(8, 3)
    torch.testing.assert_close(ours(x), nn.BatchNorm1d(3)(x))
