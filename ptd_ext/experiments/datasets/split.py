"""Splits off a test part of data that have none."""

from __future__ import annotations

import torch
from torch import Tensor

TEST_SHARE = 0.2


def split(samples: int, test: int, seed: int) -> tuple[Tensor, Tensor]:
    """Positions of the training and of the `test` test samples, both in the order of the data.

    The split depends on nothing but these arguments; classes are not balanced.
    """
    if samples < 2:
        raise ValueError(f"At least 2 samples are needed to set some apart; got {samples}.")
    test = min(max(test, 1), samples - 1)
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    return order[test:].sort().values, order[:test].sort().values
