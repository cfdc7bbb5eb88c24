"""A progress bar, on request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["ProgressBar"]


class ProgressBar:
    """Iterates over an iterable, with tqdm's bar if `shown`."""

    def __init__(self, steps: Iterable[int], shown: bool, title: str) -> None:
        self._steps: Any = steps
        self._shown = shown
        if shown:
            try:
                from tqdm.auto import tqdm
            except ImportError as error:
                raise ImportError(
                    'progress=True needs tqdm: install it with `pip install "ptd_ext[progress]"`.'
                ) from error
            self._steps = tqdm(steps, desc=title)

    def __iter__(self) -> Any:
        return iter(self._steps)

    def tell(self, **figures: object) -> None:
        """Show figures behind the bar."""
        if self._shown:
            self._steps.set_postfix(**figures)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._shown:
            self._steps.close()
