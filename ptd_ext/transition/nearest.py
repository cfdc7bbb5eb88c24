"""Nearest neighbours by cosine, in blocks of matrix products and bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.transition.cells import cell_neighbours
from ptd_ext.transition.similarity import directions, largest

_BLOCK = 1024  # rows of a block: 4 MB of similarities
_EXACT = 100_000  # samples, at most, that are all compared with each other


def nearest_neighbours(features: Tensor, k: int, *, block: int = _BLOCK) -> Tensor:
    """The k nearest other samples of each by cosine similarity, nearest first: int64 [N, k].

    Among more than 100,000 samples, neighbours are found in cells: most, but not all of them.

    Otherwise every pair of blocks is multiplied once, and serves the rows of both. Next to the
    features and the result, what is held is one block of similarities.

    Args:
        features: [N, D], finite.
        k: number of neighbours, less than N.
        block: rows of a block.
    """
    rows = directions(features)
    if len(rows) > _EXACT:
        return cell_neighbours(rows, k)
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


def _merge(best: Tensor, where: Tensor, similar: Tensor, row: int, column: int, k: int) -> None:
    """Take the similarities [n, m] of samples from `row` on with those from `column` on.

    A row whose largest similarity is no larger than its k-th best so far keeps its neighbours.
    After t blocks that is all but about k / t of the rows.
    """
    rows = (similar.amax(1) > best[row : row + len(similar), -1]).nonzero().squeeze(1)
    values, places = largest(similar[rows], min(k, similar.shape[1]))
    rows = rows + row
    values = torch.cat([best[rows], values], 1)
    places = torch.cat([where[rows], places + column], 1)
    best[rows], order = values.topk(k, dim=1)
    where[rows] = places.gather(1, order)
