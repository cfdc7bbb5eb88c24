"""How many threads a piece of work uses: no more than pay off, and no more than it is told.

Threads that synchronise often pay off on idle cores only. On a busy machine all of them wait, up to
a time slice at every barrier, for the one that is not running; so each needs enough work between
two barriers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

__all__ = ["check_threads", "threads_for", "using"]

_MANY = 256  # a process can start so many anywhere, and few machines have as many cores
_WORTH_A_THREAD = 16e6  # multiply-adds, about half a millisecond


def threads_for(work: float) -> int:
    """The number of threads that pay for `work` multiply-adds between two waits, at least one."""
    return int(max(1, min(work / _WORTH_A_THREAD, torch.get_num_threads())))


@contextlib.contextmanager
def using(threads: int) -> Iterator[None]:
    """Set the number of torch's threads within the context, and restore it afterwards."""
    before = torch.get_num_threads()
    if threads == before:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_threads(name: str, threads: int) -> None:
    """Raise for more threads than a process can start with certainty."""
    cores = os.cpu_count() or 1
    most = max(_MANY, 4 * cores)
    if threads > most:
        raise ValueError(
            f"{name} must be at most {most} on this machine, which has {cores} cores; got "
            f"{threads}. As many as there are cores is fastest."
        )
