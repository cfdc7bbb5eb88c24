"""NumPy's .npz and .npy files of numbers and strings: only arrays that are asked for are read.

NumPy parses the header, but `np.load` does not read the array: it allocates what a header declares
before it sees how long the file is, a gigabyte for a file of a hundred bytes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptd_ext.utils.bounded_files import (
    MAX_BYTES,
    ContentError,
    machine_memory,
    read_bytes,
    reading,
    shortened,
)
from ptd_ext.utils.formats.zips import check_members, open_zip, read_member

_MAX_HEADER = 1 << 10
_LAST_CHARACTER = 0x10FFFF
_CONVERT = "Convert types such as float8 and bfloat16 to float32"


def read_npz(
    path: Path, choose: Callable[[list[str]], Sequence[str]], strings: Collection[str] = ()
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the chosen arrays of a .npz file by name, and the names of all its arrays.

    Args:
        path: the file.
        choose: gets all names and returns those of the arrays to read.
        strings: names of arrays that may hold strings instead of numbers.
    """
    memory = machine_memory()
    with reading(path, "a .npz file"), open_zip(path) as archive:
        names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
        members = {name: f"{name}.npy" for name in choose(names)}
        check_members(archive, list(members.values()))
        total = sum(archive.getinfo(member).file_size for member in members.values())
        if total > memory:
            raise ContentError(f"declares {total:,} bytes, but this machine's memory is {memory:,}")
        for name, member in members.items():
            size = archive.getinfo(member).file_size
            with archive.open(member) as file:
                _header(file, size, name, name in strings)
        found = {}
        for name, member in members.items():
            found[name] = _array(read_member(archive, member), name, name in strings)
            _check_strings(found[name], name)
        return found, names


def read_npy(path: Path, limit: int = MAX_BYTES, *, strings: bool = False) -> np.ndarray:
    """The array of a .npy file, which may hold strings if `strings`."""
    with reading(path, "a .npy file"):
        return _array(bytearray(read_bytes(path, limit)), "the array", strings)


def map_npy(path: Path) -> np.ndarray:
    """The array of a .npy file as a memory map, which allocates nothing."""
    with reading(path, "a .npy file"):
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            shape, column_major, kind, start = _header(file, size, "the array")
        if 0 in shape:  # nothing to map
            return np.empty(shape, kind)
        return np.memmap(path, kind, "r", start, shape, "F" if column_major else "C")


def _array(data: bytearray, name: str, strings: bool = False) -> np.ndarray:
    """Return an array that shares the memory of the bytes."""
    shape, column_major, kind, start = _header(io.BytesIO(data), len(data), name, strings)
    flat = np.frombuffer(data, kind, count=int(np.prod(shape, dtype=object)), offset=start)
    return flat.reshape(shape, order="F" if column_major else "C")


def _check_strings(array: np.ndarray, name: str) -> None:
    """Raise for code points that are not characters, which NumPy finds only when it reads them."""
    if array.dtype.kind != "U":
        return
    points = array.reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    surrogates = (points >= 0xD800) & (points <= 0xDFFF)
    if (points > _LAST_CHARACTER).any() or surrogates.any():
        raise ContentError(
            f"is damaged: {name} holds strings with code points that are not characters"
        )


def _header(
    file: Any, size: int, name: str, strings: bool = False
) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, order, type and length of the header, checked against the bytes that follow."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ContentError(f"holds {name} in version {version} of the format, which is for names")
    try:
        shape, column_major, kind = np.lib.format.read_array_header_1_0(file, _MAX_HEADER)
    except ValueError as error:
        if "descr" in str(error):
            raise ContentError(
                f"must hold numbers; {name} holds another type. {_CONVERT}"
            ) from None
        raise
    start = file.tell()
    if kind.hasobject:
        raise ContentError(f"must hold numbers; {name} holds Python objects, which could run code")
    if kind.kind not in ("biufcU" if strings else "biufc") or kind.names is not None:
        wanted = "numbers or strings" if strings else "numbers"
        raise ContentError(f"must hold {wanted}; {name} holds {shortened(str(kind))}. {_CONVERT}")
    if kind.itemsize == 0:
        raise ContentError(f"is damaged: {name} holds strings without any character")
    if any(length < 0 for length in shape):
        raise ContentError(f"is damaged: {name} is {shortened(str(list(shape)))}")
    if int(np.prod(shape, dtype=object)) * kind.itemsize > size - start:
        lengths = shortened(str(list(shape)))
        raise ContentError(f"is damaged: {name} is {lengths}, more than its {size:,} bytes hold")
    return shape, column_major, kind, start
