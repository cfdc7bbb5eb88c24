"""The time that the rest of a table takes, estimated from the cells that are done."""

from __future__ import annotations

from collections.abc import Iterable

from ptd_ext.train.methods.registry import METHODS
from ptd_ext.train.reproduce.grid import Cell
from ptd_ext.train.reproduce.statistics import summarise

__all__ = ["Estimate"]


class Estimate:
    """Learns what runs of each method take; methods not seen yet go by their relative cost."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    def learn(self, cell: Cell, seconds: float | None) -> None:
        """Record the duration of a run, if it is known."""
        if seconds is not None:
            self._seconds.setdefault(cell.method, []).append(seconds)

    def left(self, waiting: Iterable[Cell], running: dict[Cell, float], jobs: int) -> float | None:
        """Seconds until all is done; None if nothing is known.

        Args:
            waiting: cells to come.
            running: the seconds that running cells have been running for.
            jobs: cells at a time.
        """
        if not self._seconds:
            return None
        rest = [max(0.0, self._run(cell) - elapsed) for cell, elapsed in running.items()]
        rest += [self._run(cell) for cell in waiting]
        return max(sum(rest) / jobs, max(rest, default=0.0))

    def _run(self, cell: Cell) -> float:
        if cell.method in self._seconds:
            return summarise(self._seconds[cell.method]).mean
        total = sum(sum(seconds) for seconds in self._seconds.values())
        cost = sum(METHODS[method].cost * len(s) for method, s in self._seconds.items())
        return total / cost * cell.entry.cost
