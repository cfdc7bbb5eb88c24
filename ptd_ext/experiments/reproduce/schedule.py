"""The order of the cells: a shared warm-up is made once, and long runs do not come last."""

from __future__ import annotations

from collections.abc import Iterable

from ptd_ext.train.reproduce.grid import Cell

__all__ = ["Queue"]


class Queue:
    """Cells that wait, given out one by one.

    Cells of the same data, rate and seed that warm up share a network. The first of them makes it,
    and the others wait until that one has finished: two workers never compute the same warm-up.
    Cells that do not warm up wait for nothing.

    Args:
        cells: to be run.
        finished: cells done before, whose warmed-up networks are there already.
    """

    def __init__(self, cells: Iterable[Cell], finished: Iterable[Cell] = ()) -> None:
        self._open = {cell.group for cell in finished if cell.entry.warms_up}
        self._opening: set[tuple[str, float | None, int]] = set()
        # Longest first keeps all workers busy to the end. What opens a group goes before that, as
        # others wait for it; the sort is stable, so that ties keep the order of the table.
        longest = sorted(cells, key=lambda cell: -cell.entry.cost)
        openers: dict[tuple[str, float | None, int], Cell] = {}
        for cell in longest:
            if cell.entry.warms_up and cell.group not in self._open:
                openers.setdefault(cell.group, cell)
        first = set(openers.values())
        self.waiting = [*openers.values(), *(cell for cell in longest if cell not in first)]

    def take(self) -> Cell | None:
        """The next cell that may start now, if there is one."""
        for cell in self.waiting:
            if not cell.entry.warms_up or cell.group in self._open:
                break
            if cell.group not in self._opening:
                self._opening.add(cell.group)
                break
        else:
            return None
        self.waiting.remove(cell)
        return cell

    def finish(self, cell: Cell, succeeded: bool) -> None:
        """Say that a cell has ended. If it failed, the next of its group makes the warm-up."""
        if cell.entry.warms_up:
            self._opening.discard(cell.group)
            if succeeded:
                self._open.add(cell.group)
