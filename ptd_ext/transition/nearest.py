"""Exact nearest neighbours by cosine, in blocks of matrix products and bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK = 1024  # rows of a block: 4 MB of similarities
_HALVINGS = 5  # times that the columns are halved: a group has 2⁵ similarities
# Rows whose largest entry is within these have a length that float32 holds.
_ORDINARY = (1e-15, 1e15)


def nearest_neighbours(features: Tensor, k: int, *, block: int = _BLOCK) -> Tensor:
    """The k nearest other samples of each by cosine similarity, nearest first: int64 [N, k].

    Every pair of blocks is multiplied once, and serves the rows of both. Next to the features and
    the result, what is held is one block of similarities.

    Args:
        features: [N, D], finite.
        k: number of neighbours, less than N.
        block: rows of a block.
    """
    rows = features if features.dtype is torch.float64 else features.float()
    rows = _directions(rows)
    samples = len(rows)
    best = rows.new_full((samples, k), -torch.inf)
    where = torch.zeros(samples, k, dtype=torch.int64, device=rows.device)
    starts = range(0, samples, block)
    buffer = rows.new_empty(min(block, samples) ** 2)
    for first in starts:
        left = rows[first : first + block]
        for second in starts[first // block :]:
            right = rows[second : second + block]
            similar = buffer[: len(left) * len(right)].view(len(left), len(right))
            torch.mm(left, right.T, out=similar)
            if first == second:
                similar.fill_diagonal_(-torch.inf)
            else:
                _merge(best, where, similar.T, second, first, k)
            _merge(best, where, similar, first, second, k)
    return where


def _directions(rows: Tensor) -> Tensor:
    """Rows of length one; those that are all zero have no direction and stay zero."""
    largest = torch.linalg.vector_norm(rows, torch.inf, dim=1, keepdim=True)
    odd = (largest > 0) & ((largest < _ORDINARY[0]) | (largest > _ORDINARY[1]))
    rows = rows / torch.where(odd, largest, 1.0)
    return rows / torch.where(largest > 0, rows.norm(dim=1, keepdim=True), 1.0)


def _merge(best: Tensor, where: Tensor, similar: Tensor, row: int, column: int, k: int) -> None:
    """Take the similarities [n, m] of samples from `row` on with those from `column` on.

    A row whose largest similarity is no larger than its k-th best so far keeps its neighbours.
    After t blocks that is all but about k / t of the rows.
    """
    rows = (similar.amax(1) > best[row : row + len(similar), -1]).nonzero().squeeze(1)
    values, places = _largest(similar[rows], min(k, similar.shape[1]))
    rows = rows + row
    values = torch.cat([best[rows], values], 1)
    places = torch.cat([where[rows], places + column], 1)
    best[rows], order = values.topk(k, dim=1)
    where[rows] = places.gather(1, order)


def _largest(similar: Tensor, k: int) -> tuple[Tensor, Tensor]:
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
