"""Zip archives, read member by member within bounds."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptd_ext.utils.bounded_files import ContentError, read_stream

# The directory at the end has at least 50 bytes per member, and takes ten times that in memory.
MAX_DIRECTORY = 1 << 20
# Members may inflate to this size or this multiple of the archive's, whichever is larger.
MAX_INFLATED = 1 << 30
MAX_RATIO = 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """An open archive; see `bounded_files.reading` for what reading it raises."""
    with _ShortReads(path) as file, zipfile.ZipFile(file) as archive:
        yield archive


class _ShortReads(io.FileIO):
    """A file that returns at most the largest allowed directory from one read.

    zipfile reads the directory with one call, for as many bytes as the archive declares.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "rb")
        self.size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            size = self.size - self.tell()
        if size > MAX_DIRECTORY:
            raise ContentError(
                f"must list its members in at most {MAX_DIRECTORY:,} bytes; it needs {size:,}"
            )
        return super().read(max(size, 0))


def check_members(archive: zipfile.ZipFile, names: list[str]) -> None:
    """Raise where these members are more than the bounds allow, before any of them is read."""
    assert isinstance(archive.fp, _ShortReads)
    size = archive.fp.size
    limit = max(MAX_INFLATED, MAX_RATIO * size)
    members = [archive.getinfo(name) for name in names]
    for member in members:
        if member.compress_type not in _METHODS:
            raise ContentError(
                f"must be stored or deflated; {member.filename} has another compression"
            )
    total = sum(member.file_size for member in members)
    stored = sum(m.file_size for m in members if m.compress_type == zipfile.ZIP_STORED)
    if stored > size:
        raise ContentError(f"is damaged: it declares {stored:,} bytes and has {size:,}")
    if total > limit:
        raise ContentError(
            f"declares {total:,} bytes in a file of {size:,}, more than the {limit:,} allowed"
        )


def read_member(archive: zipfile.ZipFile, name: str) -> bytearray:
    """The contents of a member, with its checksum checked."""
    check_members(archive, [name])
    with archive.open(name) as file:
        size = archive.getinfo(name).file_size
        data = read_stream(file, size)
        # Reading on is what makes zipfile compare the checksum.
        file.read(1)
    if len(data) != size:
        raise ContentError(f"is cut off: {name} has {len(data):,} of its {size:,} bytes")
    return data
