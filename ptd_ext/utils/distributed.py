"""The processes of a group: each rank holds a shard of the rows or of each batch.

In training, the loss sees the whole batch on every rank: logits are small, so they are gathered,
and each rank differentiates the same loss with respect to its own rows. The gradients of the
networks then sum to those of one process, even for losses across samples, such as selection,
sorting or a determinant.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

T = TypeVar("T")


class Ranks:
    """This process among those of a group (None: the default group); one process costs nothing."""

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
        """True if this process writes files and prints."""
        return self.rank == 0

    def share(self, ids: Tensor) -> Tensor:
        """Return this rank's rows of a batch."""
        return ids if self.size == 1 else ids.tensor_split(self.size)[self.rank]

    def gather(self, rows: Tensor, total: int) -> Tensor:
        """Return the rows of all ranks in order; the gradient flows to those of this rank."""
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
        """Sum over all ranks in place."""
        if self.size > 1:
            dist.all_reduce(tensor, group=self.group)
        return tensor

    def first_row(self, count: int, device: torch.device) -> tuple[int, int]:
        """Return the index of this rank's first row among those of all ranks, and their number."""
        if self.size == 1:
            return 0, count
        counts = torch.zeros(self.size, dtype=torch.int64, device=device)
        counts[self.rank] = count
        rows = self.sum_(counts).tolist()
        return sum(rows[: self.rank]), sum(rows)

    def sum_gradients(self, parameters: Iterable[Tensor], factor: float = 1.0) -> None:
        """Sum the gradients over ranks in one message, and multiply the sums by a factor."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.size == 1 or not gradients:
            return
        flat = torch.nn.utils.parameters_to_vector(gradients)
        torch.nn.utils.vector_to_parameters(self.sum_(flat).mul_(factor), gradients)

    def from_first(self, tensors: Iterable[Tensor]) -> None:
        """Replace the values of these tensors by those of the first rank."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, group=self.group, group_src=0)

    def largest(self, number: int, device: torch.device) -> int:
        """Return the largest number of all ranks."""
        if self.size == 1:
            return number
        found = torch.tensor(number, device=device)
        dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self.group)
        return int(found.item())

    def agree(self, value: T) -> T:
        """Return the first rank's value."""
        values = [value]
        if self.size > 1:
            dist.broadcast_object_list(values, group=self.group, group_src=0)
        return values[0]

    def wait(self) -> None:
        """Wait until all ranks have reached this call."""
        if self.size > 1:
            dist.barrier(self.group)

    def leave(self) -> None:
        """Destroy the group that :func:`join` created."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def join(device_type: str) -> Ranks:
    """Return the ranks that torchrun started, or one process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Ranks()
    if not dist.is_initialized():
        backend = "nccl" if device_type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(minutes=30))
    return Ranks(dist.get_rank(), dist.get_world_size())
