"""Sums over the ranks of a process group; over this process alone where there is none."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["Ranks"]


class Ranks:
    """The processes that each hold a share of the rows, in the order of their ranks."""

    def __init__(self, group: Any, device: torch.device) -> None:
        self.device = device
        self.group = None
        if group is None:
            return
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "process_group is given, but torch.distributed is not initialised: call "
                "torch.distributed.init_process_group first."
            )
        self.group = dist.group.WORLD if group == "world" else group

    def sum_(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.group is not None:
            dist.all_reduce(tensor, group=self.group)
        return tensor

    def share(self, count: int) -> tuple[int, int]:
        """Where this rank's `count` rows begin among those of all ranks, and how many there are."""
        if self.group is None:
            return 0, count
        rank, size = dist.get_rank(self.group), dist.get_world_size(self.group)
        counts = torch.zeros(size, dtype=torch.int64, device=self.device)
        counts[rank] = count
        counts = self.sum_(counts).tolist()
        return sum(counts[:rank]), sum(counts)

    def agree(self, number: int) -> int:
        """The first rank's number."""
        if self.group is None:
            return number
        mine = number if dist.get_rank(self.group) == 0 else 0
        return int(self.sum_(torch.tensor(mine, dtype=torch.int64, device=self.device)))
