"""The processes of a group: each rank holds a share of the rows, or of each batch.

In training, the loss sees the whole batch on every rank: logits are small, so they are gathered,
and each rank differentiates the same loss with respect to its own rows. The gradients of the
networks then add up to those of one process, whatever the loss does across samples: selection,
sorting, a determinant.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

__all__ = ["Ranks", "join"]


class Ranks:
    """This process among those of a group; None is the group of all. One process costs nothing."""

    def __init__(self, rank: int = 0, size: int = 1, group: Any = None) -> None:
        self.rank, self.size, self.group = rank, size, group

    @classmethod
    def of_group(cls, group: Any) -> Ranks:
        """The ranks of a process group or of "world"; without a group, this process alone."""
        if group is None:
            return cls()
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "process_group is given, but torch.distributed is not initialised: call "
                "torch.distributed.init_process_group first."
            )
        group = dist.group.WORLD if group == "world" else group
        return cls(dist.get_rank(group), dist.get_world_size(group), group)

    @property
    def first(self) -> bool:
        """True for the process that writes and prints."""
        return self.rank == 0

    def share(self, ids: Tensor) -> Tensor:
        """This rank's rows of a batch."""
        return ids if self.size == 1 else ids.tensor_split(self.size)[self.rank]

    def gather(self, rows: Tensor, total: int) -> Tensor:
        """All ranks' rows in order; a gradient flows to this rank's only."""
        if self.size == 1:
            return rows
        sizes = [len(part) for part in torch.empty(total, 0).tensor_split(self.size)]
        padded = rows.detach().new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows.detach()
        found = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(found, padded, group=self.group)
        parts = [part[:size] for part, size in zip(found, sizes, strict=True)]
        parts[self.rank] = rows
        return torch.cat(parts)

    def sum_(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor, group=self.group)
        return tensor

    def first_row(self, count: int, device: torch.device) -> tuple[int, int]:
        """The index of this rank's first row among the rows of all ranks, and their number."""
        if self.size == 1:
            return 0, count
        counts = torch.zeros(self.size, dtype=torch.int64, device=device)
        counts[self.rank] = count
        rows = self.sum_(counts).tolist()
        return sum(rows[: self.rank]), sum(rows)

    def agree(self, number: int, device: torch.device) -> int:
        """The first rank's number."""
        if self.size == 1:
            return number
        mine = number if self.first else 0
        return int(self.sum_(torch.tensor(mine, dtype=torch.int64, device=device)))

    def add_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Sum the gradients over ranks, in one message."""
        self._reduce(parameters, dist.ReduceOp.SUM)

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Average the gradients over ranks: of parameters of the loss, which all ranks compute."""
        self._reduce(parameters, dist.ReduceOp.SUM, 1 / self.size)

    def _reduce(self, parameters: Iterable[Tensor], how: Any, factor: float = 1) -> None:
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat, op=how, group=self.group)
        if factor != 1:
            flat *= factor
        for gradient, sums in zip(
            gradients, flat.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(sums.view_as(gradient))

    def from_first(self, tensors: Iterable[Tensor]) -> None:
        """Make these tensors equal to the first rank's."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, group=self.group, group_src=0)

    def largest(self, number: int, device: torch.device) -> int:
        """The largest number of all ranks."""
        if self.size == 1:
            return number
        found = torch.tensor(number, device=device)
        dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self.group)
        return int(found.item())

    def word(self, text: str) -> str:
        """The first rank's text."""
        if self.size == 1:
            return text
        words = [text]
        dist.broadcast_object_list(words, group=self.group, group_src=0)
        return words[0]

    def wait(self) -> None:
        """Wait until all ranks are here."""
        if self.size > 1:
            dist.barrier(self.group)

    def leave(self) -> None:
        """End the group that :func:`join` started."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def join(device_type: str) -> Ranks:
    """The ranks that torchrun started, or one process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Ranks()
    if not dist.is_initialized():
        backend = "nccl" if device_type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(minutes=30))
    return Ranks(dist.get_rank(), dist.get_world_size())
