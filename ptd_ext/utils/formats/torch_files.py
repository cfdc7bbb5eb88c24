"""Files of torch.save with tensors or NumPy arrays by name, read without torch.load.

torch.load(weights_only=True) runs no code either, but a limit on the size of the file does not
bound it (torch 2.13): an array in a file of 1 KB makes NumPy allocate a gigabyte; a file from
before torch 1.6 allocates what its storages and shapes declare; compressed members are inflated
without limit; and a key of nested tuples takes exponential time to hash.

An archive has a pickle `data.pkl` and the memory of every tensor as a member `data/<key>`; before
torch 1.6 a file was five pickles and the memory behind them. Every tensor and array shares memory
that was read once.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.utils.bounded_files import MAX_BYTES, ContentError, check_size, read_bytes, reading
from ptd_ext.utils.formats.pickles import ARRAYS, Function, Placeholder, load_pickle
from ptd_ext.utils.formats.zips import check_members, open_zip, read_member

_ARCHIVE = b"PK\x03\x04"
_MAGIC = 0x1950A86A20F9469CFC6C
_SAME_NAMES = ("Short", "Int", "Long", "Half", "BFloat16", "Float", "Double", "Bool")
_STORAGES = {name: getattr(torch, name.lower()) for name in _SAME_NAMES}
_STORAGES |= {"Byte": torch.uint8, "Char": torch.int8}


def read_torch(path: Path, limit: int = MAX_BYTES) -> Any:
    """Return the contents of the file: a dictionary of arrays and tensors, or one of them.

    Args:
        path: the file.
        limit: maximum number of bytes of the file.
    """
    check_size(path.stat().st_size, path, limit)
    with reading(path, "a file of torch.save"):
        with path.open("rb") as file:
            is_archive = file.read(4) == _ARCHIVE
        if is_archive:
            with open_zip(path) as archive:
                content = _from_archive(archive)
        else:
            content = _from_pickles(read_bytes(path, limit))
        if isinstance(content, dict):
            return {name: _finished(value) for name, value in content.items()}
        return _finished(content)


class _Dictionary(dict[Any, Any]):
    """Stands for an OrderedDict, whose attributes no tensor needs."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        pass


class _Storage(Placeholder):
    """The memory of tensors, which is read after the pickle."""

    __slots__ = ("data", "kind")

    def __init__(self, kind: torch.dtype) -> None:
        self.kind, self.data = kind, bytearray()


class _Saved(Placeholder):
    """A tensor of a storage that is yet to be read."""

    __slots__ = ("offset", "shape", "storage", "strides")

    def __init__(
        self, storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        numbers = (offset, *shape, *strides)
        if (
            not isinstance(storage, _Storage)
            or len(shape) != len(strides)
            or not all(type(number) is int and number >= 0 for number in numbers)
        ):
            raise ContentError("is rejected: it holds a tensor that no storage can have")
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides

    def __setstate__(self, state: Any) -> None:
        """Ignore the state: parameters of torch before 0.4 store there if they need a gradient."""

    def tensor(self) -> Tensor:
        """A view of the storage's memory."""
        size = self.storage.kind.itemsize
        last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        if 0 in self.shape:
            return torch.empty(self.shape, dtype=self.storage.kind)
        if (last + 1) * size > len(self.storage.data) or 0 in self.strides:
            raise ValueError("a tensor is larger than its storage")
        flat = torch.frombuffer(self.storage.data, dtype=self.storage.kind)
        return flat.as_strided(self.shape, self.strides, self.offset)


class _Parameter(Placeholder):
    """A class, as files from before torch 0.4 make one with __new__; it gives the tensor."""

    def __new__(cls, saved: _Saved, *_: Any) -> Any:
        return saved


_NAMES: dict[str, Any] = {
    **ARRAYS,
    **{f"torch.{name}Storage": Function(lambda: None) for name in _STORAGES},
    "collections.OrderedDict": Function(lambda: _Dictionary()),
    "torch._utils._rebuild_tensor": Function(lambda *saved: _Saved(*saved)),
    "torch._utils._rebuild_tensor_v2": Function(
        lambda storage, offset, shape, strides, *_: _Saved(storage, offset, shape, strides)
    ),
    "torch._utils._rebuild_parameter": Function(lambda saved, *_: saved),
    "torch.nn.parameter.Parameter": _Parameter,
}
_KINDS = {_NAMES[f"torch.{name}Storage"]: kind for name, kind in _STORAGES.items()}


def _storages(found: dict[str, _Storage]) -> Callable[[Any], _Storage]:
    """The storage that a persistent id ("storage", type, key, device, length, …) names."""

    def storage(saved: Any) -> _Storage:
        kind, key = saved[1], saved[2]
        if saved[5:] not in ((), (None,)):
            raise ContentError("is rejected: it holds a view of a storage, as torch 0.3 wrote them")
        if kind not in _KINDS or not isinstance(key, (str, bytes)):
            raise ContentError("is rejected: it holds a storage of another kind than numbers")
        key = key.decode("latin-1") if isinstance(key, bytes) else key
        return found.setdefault(key, _Storage(_KINDS[kind]))

    return storage


def _from_archive(archive: Any) -> Any:
    names = archive.namelist()
    check_members(archive, names)
    for name in names:
        if archive.getinfo(name).compress_type:
            raise ContentError(f"must be stored as torch.save does it; {name} is compressed")
    pickled = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickled) != 1:
        raise ContentError("must be a file of torch.save; it has no data.pkl")
    top = pickled[0].removesuffix("data.pkl")
    if f"{top}byteorder" in names and read_member(archive, f"{top}byteorder") != b"little":
        raise ContentError("must have been written on a little-endian machine")
    found: dict[str, _Storage] = {}
    data = read_member(archive, pickled[0])
    content = load_pickle(io.BytesIO(data), len(data), _NAMES, _storages(found))
    for key, storage in found.items():
        storage.data = read_member(archive, f"{top}data/{key}")
    return content


def _from_pickles(data: bytes) -> Any:
    stream, size = io.BytesIO(data), len(data)
    if load_pickle(stream, size, {}) != _MAGIC:
        raise ValueError("it does not begin as torch.save begins")
    for _ in range(2):  # the version, and the sizes of C's types
        load_pickle(stream, size, {})
    found: dict[str, _Storage] = {}
    content = load_pickle(stream, size, _NAMES, _storages(found))
    for key in load_pickle(stream, size, {}):
        storage = found[key.decode("latin-1") if isinstance(key, bytes) else key]
        (length,) = struct.unpack("<q", stream.read(8))
        if not 0 <= length * storage.kind.itemsize <= size:
            raise ValueError("a storage is cut off")
        storage.data = bytearray(stream.read(length * storage.kind.itemsize))
    return content


def _finished(value: Any) -> Any:
    if isinstance(value, _Saved):
        return value.tensor()
    return getattr(value, "array", value) if not isinstance(value, (np.ndarray, Tensor)) else value
