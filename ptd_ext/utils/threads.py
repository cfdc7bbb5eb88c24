"""The number of threads for a piece of work: at most torch's, and fewer for little work.

On a busy machine all threads wait at each barrier, up to a time slice, for the one that is not
running. More threads therefore need enough work between two barriers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

_MANY = 256  # threads that a process can start anywhere
_WORTH_A_THREAD = 16e6  # multiply-adds, about half a millisecond


def threads_for(work: float) -> int:
    """Return the number of threads worth starting for `work` multiply-adds between barriers."""
    return int(max(1, min(work / _WORTH_A_THREAD, torch.get_num_threads())))


@contextlib.contextmanager
def using(threads: int) -> Iterator[None]:
    """Set the number of torch's threads within the context and restore it afterwards."""
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
    """Raise ValueError for more threads than a process can be sure to start."""
    cores = os.cpu_count() or 1
    limit = max(_MANY, 4 * cores)
    if threads > limit:
        raise ValueError(
            f"{name} must be at most {limit} on this machine, which has {cores} cores; got "
            f"{threads}. One thread per core is fastest."
        )
