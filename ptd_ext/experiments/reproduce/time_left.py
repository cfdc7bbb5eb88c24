"""An estimate of the time until all cells are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ptd_ext.experiments.reproduce.grid import Cell


def time_left(
    took: Mapping[Cell, float], running: Mapping[Cell, float], waiting: Iterable[Cell], jobs: int
) -> float:
    """Estimate the seconds until all cells are done.

    A cell takes as long as others of its method, or in proportion to its cost if there are none.

    Args:
        took: the durations of finished cells, at least one.
        running: the running cells, with the seconds since their start.
        waiting: the cells that have not started.
        jobs: the number of cells that run at a time.
    """
    by_method = defaultdict(list)
    for cell, seconds in took.items():
        by_method[cell.method].append(seconds)
    by_cost = sum(took.values()) / sum(cell.entry.cost for cell in took)

    def expected(cell: Cell) -> float:
        known = by_method.get(cell.method)
        return sum(known) / len(known) if known else by_cost * cell.entry.cost

    rest = [max(0.0, expected(cell) - elapsed) for cell, elapsed in running.items()]
    rest += map(expected, waiting)
    return max(sum(rest) / jobs, max(rest, default=0.0))


def duration(seconds: float) -> str:
    """Format a duration in one or two units."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
