"""How many threads a process may be told to use."""

from __future__ import annotations

import os

__all__ = ["check_threads"]

_MANY = 256  # a process can start so many anywhere, and few machines have as many cores


def check_threads(name: str, threads: int) -> None:
    """Raise for more threads than a process can start with certainty."""
    cores = os.cpu_count() or 1
    most = max(_MANY, 4 * cores)
    if threads > most:
        raise ValueError(
            f"{name} must be at most {most} on this machine, which has {cores} cores; got "
            f"{threads}. As many as there are cores is fastest."
        )
