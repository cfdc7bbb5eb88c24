"""Files of a tar archive, read by tarfile from beginning to end without being unpacked.

tarfile reads a name of any length into memory, keeps every header, and takes a damaged header for
the end of the archive. Here it reads from a stream that limits the bytes of one read and of all
reads, headers are dropped once they are read, and an archive must end with a block of zeros.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ptd_ext.utils.bounded_files import ContentError, read_stream, reading, shortened

_PIECE = 1 << 14  # bytes of one read; tarfile reads the name of a file by one
_XZ_MEMORY = 1 << 27  # memory of the .xz decoder; the strongest preset needs 65 MB


def read_tar(
    path: Path, wanted: Callable[[str], bool], limit: int, total: int, files: int
) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of every wanted file of a .tar, .tar.gz, .tar.bz2 or .tar.xz.

    Args:
        path: the archive.
        wanted: returns whether to read the file of a name.
        limit: maximum number of bytes of one wanted file.
        total: maximum number of bytes of the decompressed archive.
        files: maximum number of files and folders.
    """
    with reading(path, "a tar archive"), path.open("rb") as file:
        stream = _Limited(_decompressed(file), total)
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for _ in range(files + 1):
                member = archive.next()
                if member is None:
                    break
                archive.members = []  # type: ignore[attr-defined]
                if member.isreg() and wanted(member.name):
                    yield member.name, _contents(archive, member, limit)
            else:
                raise ContentError(f"must hold at most {files:,} files; it holds more")
        if not stream.last or any(stream.last):
            raise ContentError("is cut off, damaged or not a tar archive: it ends too early")


def _contents(archive: tarfile.TarFile, member: tarfile.TarInfo, limit: int) -> bytes:
    if member.issparse():
        raise ContentError(f"must hold files without holes; {shortened(member.name)} has some")
    if member.size > limit:
        raise ContentError(
            f"holds {shortened(member.name)}, which declares {member.size:,} bytes, more than the "
            f"{limit:,} that such a file may hold"
        )
    data = bytearray()
    file: Any = archive.extractfile(member)
    while piece := file.read(_PIECE):
        data += piece
    return bytes(data)


class _Limited(io.RawIOBase):
    """A stream that is read from its beginning to its end, within limits."""

    def __init__(self, stream: Any, limit: int) -> None:
        super().__init__()
        self.last = b""  # what was read last
        self._stream, self._limit, self._position = stream, limit, 0

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:
        if whence or position < self._position:
            raise ContentError("is damaged: a file in it begins before the one that precedes it")
        while self._position < position and self.read(min(_PIECE, position - self._position)):
            pass
        return self._position

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _PIECE:
            raise ContentError(f"must have names of at most {_PIECE:,} bytes; one has {size:,}")
        if self._position + size > self._limit:
            raise ContentError(f"must hold at most {self._limit:,} bytes; it declares more")
        self.last = bytes(read_stream(self._stream, size))
        self._position += len(self.last)
        return self.last


def _decompressed(file: Any) -> Any:
    start = file.read(6)
    file.seek(0)
    if start[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=file)
    if start[:3] == b"BZh":
        return _Decompressed(file, bz2.BZ2Decompressor())
    if start == b"\xfd7zXZ\0":
        return _Decompressed(file, lzma.LZMADecompressor(memlimit=_XZ_MEMORY))
    return file


class _Decompressed(io.RawIOBase):
    """A decompressed file, read as a stream; unlike LZMAFile it has a limit on memory."""

    def __init__(self, file: Any, decompressor: Any) -> None:
        super().__init__()
        self._file, self._decompressor = file, decompressor

    def read(self, size: int = -1) -> bytes:
        out = b""
        while not out and not self._decompressor.eof:
            more = self._file.read(1 << 16) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not more:
                break
            out = self._decompressor.decompress(more, size)
        return out
