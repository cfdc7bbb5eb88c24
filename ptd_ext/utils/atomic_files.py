"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NotWrittenError", "atomic_file", "is_leftover", "remove_leftovers", "write_text"]

_SUFFIX = ".part"
_LEFTOVER = re.compile(r"\..+\.[a-z0-9_]{8}\.part")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NotWrittenError(OSError):
    """A file could not be written; the text is a sentence that names it, and says what to do."""

    @classmethod
    def of(cls, path: str | os.PathLike[str], error: OSError) -> NotWrittenError:
        """The sentence for what the system said."""
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            return cls(
                f"{path} could not be written, there is no room for it ({reason}). What was there "
                "before is as it was: make room, then go on from there."
            )
        return cls(f"{path} could not be written: {reason}. Is its folder there, and writable?")


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[str]:
    """The name of a temporary file beside `path`, which is renamed to it once it is on the disk.

    The temporary file is locked while its writer lives, so that :func:`remove_leftovers` can tell
    it from one whose writer was killed.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: {path.parent} is not a folder.")
    if path.exists() and not path.is_file():  # renaming would replace a device such as /dev/null
        raise NotWrittenError(f"{path} cannot be written: it is there, and it is not a file.")
    try:
        lock, temporary = _locked_temporary(path)
    except OSError as error:
        raise NotWrittenError.of(path, error) from None
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
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
    """Write a text file, whole or not at all."""
    with atomic_file(path) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")


def is_leftover(name: str) -> bool:
    """True for the name of a temporary file of :func:`atomic_file`."""
    return _LEFTOVER.fullmatch(name) is not None


def remove_leftovers(folder: str | os.PathLike[str]) -> None:
    """Remove temporary files of :func:`atomic_file` in `folder` whose writers were killed."""
    with contextlib.suppress(OSError):  # a folder that cannot be listed or changed stays as it is
        names = os.listdir(folder)
        for name in filter(is_leftover, names):
            _remove_unlocked(os.path.join(folder, name))


def _locked_temporary(path: Path) -> tuple[int, str]:
    """A new file that is locked by the descriptor returned with its name."""
    while True:
        lock, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_SUFFIX)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Between the two calls above, another process may have taken it for a leftover.
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
    """Bring the new name to the disk, so that a power failure does not bring back the old file."""
    with contextlib.suppress(OSError):  # some file systems cannot
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    """The permissions that new files must not have; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
