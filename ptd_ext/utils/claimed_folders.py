"""Folders that one process at a time writes to."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptd_ext.utils.atomic_files import NotWrittenError, remove_leftovers
from ptd_ext.utils.distributed import Ranks

__all__ = ["LOCK", "claim"]

LOCK = ".lock"  # its file, which stays in the folder
_claimed: set[Path] = set()  # folders that this process has claimed


@contextmanager
def claim(out: Path, ranks: Ranks | None = None) -> Iterator[None]:
    """Make and lock the folder, and remove temporary files that killed processes have left.

    Nothing may be written to the folder outside of this context. A process may claim a folder
    again within its own claim. After an error a folder that it made and that is empty but for the
    lock is removed.

    Args:
        out: the folder.
        ranks: the processes that share it; the first of them makes and locks it.
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
        except FileNotFoundError:  # another process has just removed the folder it had made
            continue
        except OSError as error:
            raise NotWrittenError.of(path, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A process that fails removes its lock file, and this descriptor may be of that file.
            if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise ValueError(
                f"{out} is in use: another process writes there. Wait for its end, or give another "
                "--out."
            ) from None
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(lock)
            raise ValueError(f"{path} cannot be locked: {error.strerror}.") from None
        os.close(lock)
