"""Arrays of numbers in a MATLAB 5 file; only those asked for are read.

scipy.io.loadmat is not used: SciPy 1.17 crashes over damaged files (five segmentation faults in
1,600 files of python_tests/fuzz), even if variables are decompressed within a limit first and only
variables of numbers are read; and it allocates whatever size an element declares.

A file begins with 128 bytes that hold a text and the byte order. Elements follow, each with a type
and a length of 4 bytes and with data padded to 8 bytes. A variable is an element made of others
(flags, dimensions, name and numbers), and may be compressed as a whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from ptd_ext.utils.bounded_files import MAX_BYTES, ContentError, read_stream, reading, shortened

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_FLAGS = 6
_COMPLEX = 0x800
_MAX_NAME, _MAX_DIMENSIONS, _MAX_VARIABLES = 256, 32, 1000
# The types that numbers are stored in, by the numbers of the format.
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_STORED |= {12: "i8", 13: "u8"}
# The types that a variable has, which may be larger than those it is stored in.
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4"}
_CLASSES |= {14: "i8", 15: "u8"}
_PIECE = 1 << 16


def read_mat(path: Path, names: Collection[str], limit: int = MAX_BYTES) -> dict[str, np.ndarray]:
    """Return the named arrays of a file, in column-major order as MATLAB keeps them.

    Args:
        path: the file.
        names: the variables to read; others are skipped.
        limit: maximum number of bytes of one of them.
    """
    with reading(path, "a MATLAB 5 file"), path.open("rb") as file:
        header = file.read(_HEADER)
        order = {b"IM": "<", b"MI": ">"}.get(header[126:])
        if order is None:
            raise ContentError("is cut off, damaged or not a MATLAB 5 file: its header is not one")
        length = file.seek(0, 2)
        file.seek(_HEADER)
        arrays: dict[str, np.ndarray] = {}
        for _ in range(_MAX_VARIABLES):
            if file.tell() == length:
                return arrays
            kind, size = _tag(file, order)
            end = file.tell() + size
            if end > length:
                raise ContentError("is cut off or damaged: it ends within a variable")
            if kind == _COMPRESSED:
                inflated = _Inflated(file, size)
                _tag(inflated, order)
                _read_variable(inflated, order, limit, names, arrays)
                inflated.check()
            elif kind == _MATRIX:
                _read_variable(file, order, limit, names, arrays)
            file.seek(end)
        raise ContentError(f"must hold at most {_MAX_VARIABLES:,} variables; it holds more")


def _exactly(file: Any, size: int) -> bytearray:
    data = read_stream(file, size)
    if len(data) < size:
        raise ContentError("is cut off or damaged: a variable ends too early")
    return data


def _tag(file: Any, order: str) -> tuple[int, int]:
    """Type and length of the next element."""
    kind, size = np.frombuffer(_exactly(file, 8), f"{order}u4")
    return int(kind), int(size)


class _Inflated:
    """The decompressed bytes of an element, as many as are asked for."""

    def __init__(self, file: Any, size: int) -> None:
        self._file, self._left = file, size
        self._inflate = zlib.decompressobj()

    def read(self, size: int) -> bytes:
        out = b""
        while not out and size and not self._inflate.eof:
            data = self._inflate.unconsumed_tail or self._file.read(min(_PIECE, self._left))
            if not self._inflate.unconsumed_tail:
                self._left -= len(data)
            if not data:
                break
            out = self._inflate.decompress(data, size)
        return out

    def check(self) -> None:
        """Check the checksum, by decompressing past the last byte."""
        if not self.read(1) and not self._inflate.eof:
            raise ContentError("is cut off or damaged: a variable ends too early")


def _read_variable(
    file: Any, order: str, limit: int, names: Collection[str], arrays: dict[str, np.ndarray]
) -> None:
    """Add the variable that begins here to the arrays, if it is asked for."""
    (flags, *_), kind = _numbers(file, order, "u4", 8)
    if kind != _FLAGS:
        return
    shape = [int(n) for n in _numbers(file, order, "i4", 4 * _MAX_DIMENSIONS)[0]]
    name = bytes(_numbers(file, order, "u1", _MAX_NAME)[0]).decode("latin-1")
    if name not in names:
        return
    stored_as = _CLASSES.get(int(flags) & 0xFF)
    if stored_as is None or int(flags) & _COMPLEX:
        raise ContentError(f"must hold real numbers; {shortened(name)} are others")
    count = int(np.prod(shape, dtype=object))
    wanted = np.dtype(stored_as)
    if min(shape, default=0) < 0 or count * wanted.itemsize > limit:
        raise ContentError(f"holds {shortened(name)} of {shape} numbers, more than {limit:,} bytes")
    values, _ = _numbers(file, order, None, limit)
    if len(values) != count:
        raise ContentError(
            f"is cut off or damaged: {shortened(name)} must have {count:,} numbers; "
            f"it has {len(values):,}"
        )
    arrays[name] = values.astype(wanted, copy=False).reshape(shape, order="F")


def _numbers(file: Any, order: str, code: str | None, limit: int) -> tuple[np.ndarray, int]:
    """The numbers of the next element, in a given type or in that of the element, and its type."""
    tag = _exactly(file, 8)
    kind, size = (int(n) for n in np.frombuffer(tag, f"{order}u4"))
    # Up to 4 bytes of data stand in the tag itself, behind a length of 2 bytes.
    small = kind >> 16
    if small:
        kind, data = kind & 0xFFFF, tag[4 : 4 + min(small, 4)]
    elif size > limit:
        raise ContentError(f"is damaged: a part of a variable has {size:,} bytes")
    else:
        data = _exactly(file, size)
        _exactly(file, -size % 8)
    if code is None and kind not in _STORED:
        raise ContentError("must hold real numbers; it holds others")
    return np.frombuffer(data, f"{order}{code or _STORED[kind]}"), kind
