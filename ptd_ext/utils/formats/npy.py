"""NumPy's .npz and .npy files of numbers and texts: only arrays that are asked for are read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptd_ext.train.data.formats.zips import check_members, open_zip, read_member
from ptd_ext.utils.bounded_files import MAX_BYTES, ContentError, read_bytes, reading, shortened

__all__ = ["map_npy", "read_npy", "read_npz"]

_MAX_HEADER = 1 << 10
_LAST_CHARACTER = 0x10FFFF


def read_npz(
    path: Path, choose: Callable[[list[str]], Sequence[str]], texts: Collection[str] = ()
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the chosen arrays of a .npz file by name, and the names of all its arrays.

    Args:
        path: The file.
        choose: Gets all names and returns those of the arrays to read.
        texts: The names of arrays that may hold texts instead of numbers.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
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
                _header(file, size, name, name in texts)
        found = {
            name: _array(read_member(archive, member), name, name in texts)
            for name, member in members.items()
        }
        for name, array in found.items():
            if array.dtype.kind == "U":
                _check_texts(array, name)
        return found, names


def read_npy(path: Path, limit: int = MAX_BYTES) -> np.ndarray:
    """The array of a .npy file."""
    with reading(path, "a .npy file"):
        return _array(bytearray(read_bytes(path, limit)), "the array")


def map_npy(path: Path) -> np.ndarray:
    """The array of a .npy file as a memory map, which allocates nothing."""
    with reading(path, "a .npy file"):
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            shape, column_major, kind, start = _header(file, size, "the array")
        if 0 in shape:  # nothing to map
            return np.empty(shape, kind)
        return np.memmap(path, kind, "r", start, shape, "F" if column_major else "C")


def _array(data: bytearray, name: str, texts: bool = False) -> np.ndarray:
    """Return an array that shares the memory of the bytes."""
    shape, column_major, kind, start = _header(io.BytesIO(data), len(data), name, texts)
    flat = np.frombuffer(data, kind, count=int(np.prod(shape, dtype=object)), offset=start)
    return flat.reshape(shape, order="F" if column_major else "C")


def _check_texts(array: np.ndarray, name: str) -> None:
    """Raise for bytes that are no characters, which NumPy finds only when it reads them."""
    points = array.reshape(-1).view(np.uint32).astype(np.uint32)
    if array.dtype.byteorder == ">":
        points = points.byteswap()
    if len(points) and (points.max() > _LAST_CHARACTER or _is_surrogate(points).any()):
        raise ContentError(f"is damaged: {name} holds texts with bytes that are no characters")


def _is_surrogate(points: np.ndarray) -> np.ndarray:
    return (points >= 0xD800) & (points <= 0xDFFF)


def _header(
    file: Any, size: int, name: str, texts: bool = False
) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, order, type and length of the header, checked against the bytes that follow."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ContentError(f"holds {name} in version {version} of the format, which is for names")
    shape, column_major, kind = np.lib.format.read_array_header_1_0(file, _MAX_HEADER)
    start = file.tell()
    if kind.hasobject:
        raise ContentError(f"must hold numbers; {name} holds Python objects, which could run code")
    if kind.kind not in ("biufcU" if texts else "biufc") or kind.names is not None:
        wanted = "numbers or texts" if texts else "numbers"
        raise ContentError(f"must hold {wanted}; {name} holds {shortened(str(kind))}")
    if kind.itemsize == 0:
        raise ContentError(f"is damaged: {name} holds texts without any character")
    if any(length < 0 for length in shape):
        raise ContentError(f"is damaged: {name} is {shortened(str(list(shape)))}")
    if int(np.prod(shape, dtype=object)) * kind.itemsize > size - start:
        lengths = shortened(str(list(shape)))
        raise ContentError(f"is damaged: {name} is {lengths}, more than its {size:,} bytes hold")
    return shape, column_major, kind, start
