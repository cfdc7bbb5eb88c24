"""Ctrl-C and SIGTERM as a request to stop after the current step, with a checkpoint."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Stopped(Exception):
    """Raised after a signal has stopped training; `code` is the exit code of the process."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number
        self.code = 128 + signal_number


class StopSignals:
    """Records the first signal; a second one ends the process as usual."""

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        # Python hands signals to its main thread only, and only that may ask for them.
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
