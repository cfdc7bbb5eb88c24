"""Locks that let one process at a time write to a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptd_ext.utils.atomic_files import NotWrittenError, remove_leftovers
from ptd_ext.utils.distributed import Ranks

LOCK = ".lock"  # the lock file, which stays in the folder
_claimed: set[Path] = set()  # folders that this process has claimed


@contextmanager
def claim(out: Path, ranks: Ranks | None = None) -> Iterator[None]:
    """Create and lock the folder, and remove the temporary files of killed processes.

    The folder may be written to within this context only. Claims of one process may be nested.
    After an error, a folder that was created here and holds only the lock is removed.

    Args:
        out: the folder.
        ranks: the processes that share it; the first of them creates and locks it.
    """
    ranks = Ranks() if ranks is None else ranks
    ranks.wait()
    folder, lock, made = out.absolute(), None, not out.exists()
    if ranks.first and folder not in _claimed:
        lock = _lock(out)
        _claimed.add(folder)
        remove_leftovers(out)
    ranks.wait()
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            if lock is not None and os.listdir(out) == [LOCK]:
                (out / LOCK).unlink()
                if made:
                    out.rmdir()
        raise
    finally:
        if lock is not None:
            _claimed.discard(folder)
            os.close(lock)


def _lock(out: Path) -> int:
    """Return a descriptor that locks the folder until it is closed or the process ends."""
    path = out / LOCK
    while True:
        try:
            out.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # another process has just removed the folder
            continue
        except OSError as error:
            raise NotWrittenError.of(path, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The descriptor may belong to a lock file that a failed process has just removed.
            if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise ValueError(
                f"{out} is in use: another process writes to it. Wait until it ends, or choose "
                "another folder."
            ) from None
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(lock)
            raise ValueError(f"{path} cannot be locked: {error.strerror}.") from None
        os.close(lock)
