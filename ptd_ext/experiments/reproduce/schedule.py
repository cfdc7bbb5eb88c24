"""The order in which cells start, and their division among machines.

Cells of the same data set, noise rate and seed whose method warms up share one warmed-up network.
The first of such a group to run writes it to the cache, and the others wait for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from ptd_ext.experiments.reproduce.grid import Cell, Group


def start_order(cells: Iterable[Cell], warm: Iterable[Group | None] = ()) -> list[Cell]:
    """Order the cells for their start.

    The first cell of each group starts first, because others wait for it. The rest start in
    descending order of cost, so that no long run is left for the end.

    Args:
        cells: the cells to run.
        warm: the groups whose warm-up is in the cache.
    """
    known = {None, *warm}
    first: list[Cell] = []
    others: list[Cell] = []
    for cell in sorted(cells, key=lambda cell: -cell.entry.cost):
        (others if cell.group in known else first).append(cell)
        known.add(cell.group)
    return [*first, *others]


def shard(cells: Sequence[Cell], index: int, count: int) -> list[Cell]:
    """Return the cells of one shard, in the order of the table.

    The division depends on the cells and on `count` only, so that processes need not communicate.
    Each warm-up group is in one shard. Units go to the shard with the least cost so far, the most
    expensive unit first.

    Args:
        cells: all cells of the table.
        index: the number of the shard, from 1 to `count`.
        count: the number of shards.
    """
    units: dict[Group | Cell, list[Cell]] = {}
    for cell in cells:
        units.setdefault(cell.group or cell, []).append(cell)
    costs = [(sum(cell.entry.cost for cell in unit), unit) for unit in units.values()]
    loads = [(0.0, number) for number in range(1, count + 1)]
    mine: set[Cell] = set()
    for cost, unit in sorted(costs, key=lambda pair: -pair[0]):
        load, number = heapq.heappop(loads)
        heapq.heappush(loads, (load + cost, number))
        if number == index:
            mine.update(unit)
    return [cell for cell in cells if cell in mine]
