"""Nearest neighbours by cosine among many rows: cells by k-means, and exact search inside them.

The rows are divided into √N cells around centres. A row looks for its neighbours in the few cells
whose centres are nearest to it, exactly, which takes about N^1.5 products instead of N². Neighbours
in other cells are missed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.transition.similarity import directions, largest

_PROBES = 16  # cells that a row looks into
_TRAINING_ROWS = 64  # from which k-means finds a cell
_ITERATIONS = 8  # that k-means takes
_BLOCK = 1 << 12  # rows at once


def cell_neighbours(rows: Tensor, k: int, *, probes: int = _PROBES) -> Tensor:
    """The k nearest other samples in the nearest cells of each, nearest first: int64 [N, k].

    A sample whose cells hold fewer than k others looks into all of them. Two calls return the same.

    Args:
        rows: samples, of length one or zero, [N, D].
        k: number of neighbours, less than N.
        probes: number of cells that a sample looks into.
    """
    centres = _centres(rows, max(1, round(len(rows) ** 0.5)))
    probes = min(probes, len(centres))
    nearest = torch.cat([largest(part @ centres.T, probes)[1] for part in rows.split(_BLOCK)])
    members, first = _grouped(nearest[:, 0], len(centres))
    searching, bounds = _grouped(nearest.flatten(), len(centres))
    searching //= probes
    del nearest
    best = rows.new_full((len(rows), k), -torch.inf)
    where = torch.zeros(len(rows), k, dtype=torch.int64, device=rows.device)
    for cell in range(len(centres)):
        inside = members[first[cell] : first[cell + 1]]
        _search(rows, searching[bounds[cell] : bounds[cell + 1]], inside, best, where)
    few = (best[:, -1] == -torch.inf).nonzero()[:, 0]
    best[few] = -torch.inf
    if len(few):
        for inside in torch.arange(len(rows), device=rows.device).split(_BLOCK):
            _search(rows, few, inside, best, where)
    return where


def _search(rows: Tensor, searching: Tensor, inside: Tensor, best: Tensor, where: Tensor) -> None:
    """Take the similarities of the rows `searching` [n] with the rows `inside` [m], in order."""
    if not len(inside):
        return
    there = rows[inside]
    k = best.shape[1]
    for queries in searching.split(_BLOCK):
        similar = rows[queries] @ there.T
        own = torch.searchsorted(inside, queries).clamp(max=len(inside) - 1)
        itself = (inside[own] == queries).nonzero()[:, 0]
        similar[itself, own[itself]] = -torch.inf
        nearer = (similar.amax(1) > best[queries, -1]).nonzero()[:, 0]
        values, places = largest(similar[nearer], min(k, len(inside)))
        chosen = queries[nearer]
        values = torch.cat([best[chosen], values], 1)
        places = torch.cat([where[chosen], inside[places]], 1)
        best[chosen], order = values.topk(k, dim=1)
        where[chosen] = places.gather(1, order)


def _centres(rows: Tensor, cells: int) -> Tensor:
    """Directions by k-means on a sample of the rows, [cells, D]."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    sample = rows[order[: _TRAINING_ROWS * cells].to(rows.device)]
    centres = sample[:cells]
    for _ in range(_ITERATIONS):
        cell = torch.cat([(part @ centres.T).argmax(1) for part in sample.split(_BLOCK)])
        found = directions(torch.zeros_like(centres).index_add_(0, cell, sample))
        centres = torch.where(found.any(1, keepdim=True), found, centres)
    return centres


def _grouped(cell: Tensor, cells: int) -> tuple[Tensor, list[int]]:
    """Indices in the order of their cells, and where each cell starts among them, [cells + 1]."""
    starts = cell.bincount(minlength=cells).cumsum(0).tolist()
    return cell.argsort(stable=True), [0, *starts]
