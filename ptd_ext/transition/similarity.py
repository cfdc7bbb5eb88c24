"""Directions of rows, and the largest of their similarities."""

from __future__ import annotations

import torch
from torch import Tensor

_HALVINGS = 5  # times that the columns are halved: a group has 2⁵ similarities
# Rows whose largest entry is within these have a length that float32 holds.
_ORDINARY = (1e-15, 1e15)


def directions(rows: Tensor) -> Tensor:
    """Rows of length one, at least float32; those that are all zero stay zero."""
    rows = rows if rows.dtype is torch.float64 else rows.float()
    size = torch.linalg.vector_norm(rows, torch.inf, dim=1, keepdim=True)
    odd = (size > 0) & ((size < _ORDINARY[0]) | (size > _ORDINARY[1]))
    rows = rows / torch.where(odd, size, 1.0)
    return rows.div_(torch.where(size > 0, rows.norm(dim=1, keepdim=True), 1.0))


def largest(similar: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest entries of every row, with their columns.

    The columns are split into groups {g, g + G, g + 2G, …}, and the k largest entries lie in the k
    groups of the largest maxima. Maxima of the two halves, then of their halves, are the fastest
    way to those of the groups.
    """
    length, columns = similar.shape
    groups = columns >> _HALVINGS
    if groups < 2 * k:
        return similar.topk(k, dim=1)
    grouped = groups << _HALVINGS
    maxima = similar[:, :grouped]
    for _ in range(_HALVINGS):
        left, right = maxima.chunk(2, dim=1)
        maxima = torch.maximum(left, right)
    chosen = maxima.topk(k, dim=1, sorted=False).indices  # [n, k]
    inside = torch.arange(0, grouped, groups, device=similar.device)
    candidates = (chosen[:, :, None] + inside).flatten(1)
    rest = torch.arange(grouped, columns, device=similar.device).expand(length, -1)
    candidates = torch.cat([candidates, rest], 1)
    values, order = similar.gather(1, candidates).topk(k, dim=1)
    return values, candidates.gather(1, order)
