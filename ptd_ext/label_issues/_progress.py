"""The progress of training on rows in memory: a bar, a line for every epoch, or nothing."""

from __future__ import annotations

import sys
from typing import Any

from ptd_ext.train.engine.logger import Log

__all__ = ["TrainingProgress", "bar_on_terminals"]


def bar_on_terminals() -> bool | str:
    """The setting `progress` for calls that do not say: a bar where somebody can see it."""
    return "bar" if sys.stderr.isatty() else False


class TrainingProgress(Log):
    """Shows epochs. The accuracy on a test set is left out, since there is none.

    Args:
        progress: true prints a line for every epoch, "bar" shows a bar, false nothing.
    """

    def __init__(self, progress: bool | str) -> None:
        if progress not in (True, False, "bar"):
            raise ValueError(f'progress must be True, False or "bar"; got {progress!r}.')
        super().__init__(
            quiet=progress is not True, progress=False, validation="held-out given-label"
        )
        self._wanted = progress == "bar"
        self._bar: Any = None

    def begin(self, title: str, epochs: int) -> None:
        """Show the bar for so many epochs, if one is wanted and tqdm is installed."""
        if not self._wanted:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._bar = tqdm(total=epochs, desc=f"training {title}", unit="epoch", leave=False)

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
