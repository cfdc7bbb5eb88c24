"""The progress of training on rows in memory: a bar, a line for every epoch, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ptd_ext.engine.stage.logger import Log


def bar_on_terminals() -> bool | str:
    """The default of `progress`: a bar if standard error is a terminal."""
    return "bar" if sys.stderr.isatty() else False


def check_progress(progress: bool | str) -> None:
    """Raise for another setting than those there are."""
    if progress not in (True, False, "bar"):
        raise ValueError(f'progress must be True, False or "bar"; got {progress!r}.')


def over_folds(folds: Iterable[Any], count: int, progress: bool | str) -> Iterator[Any]:
    """The folds of cross-fitting one by one, with a line for each, or with a bar over all."""
    bar = _bar(count, "cross-fitting", "fold") if progress == "bar" else None
    try:
        for number, fold in enumerate(folds, 1):
            if progress is True:
                print(f"cross-fitting, fold {number} of {count}", flush=True)
            yield fold
            if bar is not None:
                bar.update()
                bar.refresh()  # folds are few, so that every one is shown
    finally:
        if bar is not None:
            bar.close()


def _bar(total: int, title: str, unit: str) -> Any:
    """A bar that disappears at its end; None without tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, desc=title, unit=unit, leave=False)


class TrainingProgress(Log):
    """Shows epochs. The accuracy on a test set is left out, since there is none.

    Args:
        progress: true prints a line for every epoch, "bar" shows a bar, false nothing.
    """

    def __init__(self, progress: bool | str) -> None:
        check_progress(progress)
        super().__init__(
            quiet=progress is not True, progress=False, validation="held-out given-label"
        )
        self._wanted = progress == "bar"
        self._bar: Any = None

    def begin(self, title: str, epochs: int) -> None:
        """Show the bar for so many epochs, if one is wanted and tqdm is installed."""
        if self._wanted:
            self._bar = _bar(epochs, f"training {title}", "epoch")

    def epoch(self, record: dict[str, Any]) -> None:
        """Move on by an epoch."""
        super().epoch({name: value for name, value in record.items() if name != "test_accuracy"})
        if self._bar is not None:
            self._bar.set_postfix_str(f"{record['stage']}, loss {record['loss']:.3f}", False)
            self._bar.update()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
        super().close()
