"""The progress of training on rows in memory: a bar, a line for every epoch, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ptd_ext.engine.stage.logger import Log, progress_bar


def bar_on_terminals() -> bool | str:
    """The default of `progress`: a bar if standard error is a terminal."""
    return "bar" if sys.stderr.isatty() else False


def check_progress(progress: bool | str) -> None:
    """Raise for another setting than those there are."""
    if progress not in (True, False, "bar"):
        raise ValueError(f'progress must be True, False or "bar"; got {progress!r}.')


def over_folds(folds: Iterable[Any], count: int, progress: bool | str) -> Iterator[Any]:
    """The folds of cross-fitting one by one, with a line for each, or with a bar over all."""
    bar = progress_bar(count, "cross-fitting") if progress == "bar" else None
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


class TrainingProgress(Log):
    """Shows epochs. The accuracy on a test set is left out, since there is none.

    Args:
        progress: true prints a line for every epoch, "bar" shows a bar, false nothing.
    """

    def __init__(self, progress: bool | str) -> None:
        check_progress(progress)
        super().__init__(
            quiet=progress is not True,
            verbose=True,
            progress=False,
            validation="held-out given-label",
        )
        self.bar_stream = sys.stderr if progress == "bar" else None

    def epoch(self, record: dict[str, Any]) -> None:
        """Move on by an epoch."""
        super().epoch({name: value for name, value in record.items() if name != "test_accuracy"})
