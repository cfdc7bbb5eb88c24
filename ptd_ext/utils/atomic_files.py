"""Atomic writes: a file holds its old or its new contents, never a part of them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SUFFIX = ".part"
_LEFTOVER = re.compile(r"\..+\.[a-z0-9_]{8}\.part")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NotWrittenError(OSError):
    """A file could not be written; the message names the file, the reason and the remedy."""

    @classmethod
    def of(cls, path: str | os.PathLike[str], error: OSError) -> NotWrittenError:
        """The error for a file that the system could not write."""
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            return cls(
                f"{path} could not be written: the disk is full ({reason}). Earlier files are "
                "unchanged: free some space, then try again."
            )
        return cls(f"{path} could not be written: {reason}. Check that its folder is writable.")


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a temporary file, which replaces `path` once it is on the disk.

    A file that is replaced keeps its permissions; a symbolic link stays, and its target is
    replaced. The temporary file is locked while its writer lives, so that
    :func:`remove_leftovers` removes only those of killed writers.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: {path.parent} is not a folder.")
    if path.exists() and not path.is_file():  # renaming would replace a device such as /dev/null
        raise NotWrittenError(f"{path} cannot be written: it exists, but it is not a file.")
    try:
        lock, temporary = _locked_temporary(path)
    except OSError as error:
        raise NotWrittenError.of(path, error) from None
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and not isinstance(error, NotWrittenError):
            raise NotWrittenError.of(path, error) from None
        raise
    finally:
        os.close(lock)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    with atomic_file(path) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")


def is_leftover(name: str) -> bool:
    """Return whether :func:`atomic_file` gives its temporary files such names."""
    return _LEFTOVER.fullmatch(name) is not None


def remove_leftovers(folder: str | os.PathLike[str]) -> None:
    """Remove temporary files of :func:`atomic_file` in `folder` whose writers were killed."""
    with contextlib.suppress(OSError):  # a folder that cannot be listed or changed stays as it is
        names = os.listdir(folder)
        for name in filter(is_leftover, names):
            _remove_unlocked(os.path.join(folder, name))


def _locked_temporary(path: Path) -> tuple[int, str]:
    """Create a temporary file; returns the descriptor that locks it, and its name."""
    while True:
        lock, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_SUFFIX)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Between the two calls above, another process may have removed it as a leftover.
        if os.fstat(lock).st_nlink:
            return lock, name
        os.close(lock)


def _remove_unlocked(name: str) -> None:
    try:
        file = os.open(name, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(name)
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        os.close(file)


def _sync_folder(folder: Path) -> None:
    """Flush the folder, so that the new file survives a power failure."""
    with contextlib.suppress(OSError):  # some file systems cannot flush folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode(path: Path) -> int:
    """The permissions of the file at `path`, or those of a new one."""
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0o077)  # the mask can only be read by setting it
    os.umask(mask)
    return 0o666 & ~mask
