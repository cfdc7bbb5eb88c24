"""Tar archives, read from their beginning to their end without being unpacked.

tarfile reads names of any length into memory, keeps every header that it has seen, and takes a
damaged header for the end of the archive, so that files are missing without a word. Here a header
is its 512 bytes, and an archive ends where tar says so: with a block of zeros.
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

__all__ = ["TarLimits", "read_tar"]

_BLOCK = 512
_PIECE = 1 << 20
# Longest name or list of attributes; a path of Linux has 4,096 bytes.
MAX_NAME = 1 << 14
# The memory limit of the .xz decoder; the strongest preset needs 65 MB.
_XZ_MEMORY = 1 << 27


class TarLimits:
    """Bounds of an archive.

    Args:
        file: Bytes of one wanted file.
        total: Bytes of the whole archive, once decompressed.
        headers: Number of files, folders and attributes.
    """

    def __init__(self, file: int, total: int, headers: int) -> None:
        self.file, self.total, self.headers = file, total, headers


def read_tar(
    path: Path, wanted: Callable[[str], bool], limits: TarLimits
) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every wanted file of a .tar, .tar.gz, .tar.bz2 or .tar.xz."""
    with reading(path, "a tar archive"), path.open("rb") as file:
        stream = _Limited(_decompressed(file), limits.total)
        yield from _files(stream, wanted, limits)


def _files(
    stream: _Limited, wanted: Callable[[str], bool], limits: TarLimits
) -> Iterator[tuple[str, bytes]]:
    longer: dict[str, str] = {}
    for _ in range(limits.headers):
        block = stream.exactly(_BLOCK)
        if not any(block):
            return
        header = tarfile.TarInfo.frombuf(bytes(block), "utf-8", "surrogateescape")
        if header.size < 0:
            raise ContentError("is damaged: a file in it has a negative size")
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
            if header.size > MAX_NAME:
                raise ContentError(
                    f"must have names of at most {MAX_NAME:,} bytes; one has {header.size:,}"
                )
            longer.update(_attributes(header.type, stream.padded(header.size)))
            continue
        if header.type in (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK):
            stream.skip(header.size)
            continue
        name, size = longer.get("path", header.name), header.size
        if "size" in longer:
            size = int(longer["size"][:20])
        longer = {}
        if header.isreg() and wanted(name):
            if header.type == tarfile.GNUTYPE_SPARSE or size < 0:
                raise ContentError(f"must hold files without holes; {shortened(name)} has some")
            if size > limits.file:
                raise ContentError(
                    f"holds {shortened(name)}, which declares {size:,} bytes, more than the "
                    f"{limits.file:,} that such a file may hold"
                )
            yield name, bytes(stream.padded(size))
        elif header.isreg() or header.type not in tarfile.SUPPORTED_TYPES:
            stream.skip(size)
    raise ContentError(f"must hold at most {limits.headers:,} files; it holds more")


def _attributes(kind: bytes, data: bytearray) -> dict[str, str]:
    """A GNU name, or POSIX attributes `<length> <key>=<value>`, for the header that follows."""
    if kind == tarfile.GNUTYPE_LONGNAME:
        return {"path": _text(data.split(b"\0", 1)[0])}
    found, start = {}, 0
    while start < len(data) and data[start]:
        length, space, _ = data[start : start + 21].partition(b" ")
        end = start + int(length)
        record = data[start + len(length) + len(space) : end]
        key, equals, value = record.partition(b"=")
        if not space or not equals or not start < end <= len(data) or record[-1:] != b"\n":
            raise ContentError("is damaged: attributes of a file cannot be read")
        found[_text(key)] = _text(value[:-1])
        start = end
    return found


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "surrogateescape")


class _Limited:
    """A stream that raises once more than a limit was read from it."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._left, self._limit = stream, limit, limit

    def exactly(self, size: int) -> bytearray:
        """Read so many bytes, or raise where the stream ends before."""
        self._check(size)
        self._left -= size
        data = read_stream(self._stream, size)
        if len(data) < size:
            raise ContentError("is cut off, damaged or not a tar archive: it ends too early")
        return data

    def padded(self, size: int) -> bytearray:
        """Read so many bytes, and skip the padding of their last block."""
        data = self.exactly(size)
        self.exactly(-size % _BLOCK)
        return data

    def skip(self, size: int) -> None:
        """Skip so many bytes and the padding of their last block."""
        size += -size % _BLOCK
        self._check(size)
        while size > 0:
            size -= len(self.exactly(min(size, _PIECE)))

    def _check(self, size: int) -> None:
        if size > self._left:
            raise ContentError(f"must hold at most {self._limit:,} bytes; it declares more")


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
