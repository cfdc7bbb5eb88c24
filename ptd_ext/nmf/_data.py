"""The rows of a factorisation in batches, from any container.

An array, a tensor or a memory map is cut into batches; a list, a DataLoader or a function that
returns an iterator brings its own. Nothing here holds more than one batch.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

# A batch is large enough for its matrix products to run at full speed, and small enough to be read
# by the second of them from the cache.
_BATCH_BYTES = {"cpu": 8 << 20, "cuda": 256 << 20}


class Rows:
    """[N, D] in batches of one floating type on one device, any number of times."""

    device: torch.device
    dtype: torch.dtype
    n_features: int
    as_tensors: bool  # whether results are tensors, as the data are

    def count(self) -> int:
        """N."""
        raise NotImplementedError

    def batches(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the slice of rows that a batch has, and the batch [n, D], valid until the next."""
        raise NotImplementedError

    def take(self, indices: Tensor) -> Tensor:
        """The rows of these ascending indices."""
        found = [
            x[indices[(indices >= at.start) & (indices < at.stop)].to(x.device) - at.start]
            for at, x in self.batches()
        ]
        return torch.cat(found)

    def like_data(self, tensor: Tensor) -> Any:
        """Convert a result to the type of the data."""
        return tensor if self.as_tensors else tensor.cpu().numpy()


def open_rows(data: Any, batch_size: int | None = None, device: Any = None) -> Rows:
    """Open the rows of any supported container; raise TypeError or ValueError for others."""
    if isinstance(data, Tensor | np.ndarray):
        return _ArrayRows(data, batch_size, device)
    if hasattr(data, "tocsr"):
        raise TypeError("X is sparse: pass it dense, or in dense batches from a function.")
    if hasattr(data, "__array__"):
        return _ArrayRows(np.asarray(data), batch_size, device)
    if isinstance(data, Iterator):
        raise TypeError(
            "X can be iterated over only once: pass a function that returns a new iterator of "
            "batches each time, or feed the batches to partial_fit."
        )
    if callable(data):
        return _StreamRows(data, device)
    if isinstance(data, list) and data and isinstance(_only_features(data[0]), int | float):
        return _ArrayRows(np.asarray(data), batch_size, device)
    if isinstance(data, Iterable):
        return _StreamRows(lambda: iter(data), device)
    raise TypeError(
        "X must be a tensor, an array, a memory map, batches, or a function that returns an "
        f"iterator of batches; got {type(data).__name__}."
    )


class _ArrayRows(Rows):
    def __init__(self, data: Tensor | np.ndarray, batch_size: int | None, device: Any) -> None:
        _check_matrix(data)
        self._data = data.detach() if isinstance(data, Tensor) else data
        self.as_tensors = isinstance(data, Tensor)
        self.dtype = _working_type(data.dtype)
        self.device = _device_of(data, device)
        self.n_features = data.shape[1]
        row_bytes = max(1, self.n_features * self.dtype.itemsize)
        affordable = _BATCH_BYTES.get(self.device.type, _BATCH_BYTES["cpu"]) // row_bytes
        self._batch = batch_size or max(1, affordable)

    def count(self) -> int:
        return self._data.shape[0]

    def batches(self) -> Iterator[tuple[slice, Tensor]]:
        for begin in range(0, self.count(), self._batch):
            at = slice(begin, min(begin + self._batch, self.count()))
            yield at, self._tensor(self._data[at])
            _release(self._data, at)

    def take(self, indices: Tensor) -> Tensor:
        if self.as_tensors:
            return self._tensor(self._data[indices.to(self._data.device)])
        found = []
        for few in indices.split(64):  # each may load megabytes around it
            found.append(self._tensor(self._data[few.numpy()]))
            _release(self._data, slice(int(few[0]), int(few[-1]) + 1))
        return torch.cat(found)

    def _tensor(self, part: Tensor | np.ndarray) -> Tensor:
        return _as_tensor(part).to(self.device, self.dtype)


class _StreamRows(Rows):
    def __init__(self, make: Callable[[], Iterable[Any]], device: Any) -> None:
        self._make = make
        self._count: int | None = None
        first = next(iter(make()), None)
        if first is None:
            raise ValueError("X has no batches.")
        first = _only_features(first)
        _check_matrix(first)
        self.as_tensors = isinstance(first, Tensor)
        self.dtype = _working_type(first.dtype)
        self.device = _device_of(first, device)
        self.n_features = first.shape[1]

    def count(self) -> int:
        if self._count is None:
            self._count = sum(len(_only_features(batch)) for batch in self._make())
        return self._count

    def batches(self) -> Iterator[tuple[slice, Tensor]]:
        begin = 0
        for batch in self._make():
            part = _only_features(batch)
            _check_matrix(part)
            if part.shape[1] != self.n_features:
                raise ValueError(
                    f"Every batch of X must have {self.n_features} columns, as the first has; got "
                    f"{part.shape[1]}."
                )
            at = slice(begin, begin + len(part))
            begin = at.stop
            yield at, _as_tensor(part).detach().to(self.device, self.dtype)
        if self._count is not None and begin != self._count:
            raise ValueError(
                f"X had {self._count} rows the first time and {begin} now: every pass must give "
                "the same rows in the same order."
            )


def _only_features(batch: Any) -> Any:
    """The features of a batch; DataLoaders give (features, labels, …)."""
    return batch[0] if isinstance(batch, tuple | list) else batch


def _check_matrix(data: Any) -> None:
    if not isinstance(data, Tensor | np.ndarray) or len(data.shape) != 2 or data.shape[1] < 1:
        shape = tuple(data.shape) if hasattr(data, "shape") else None
        # scikit-learn's users know these words, and its checks ask for them.
        known = ""
        if shape is not None and len(shape) == 1:
            known = " Reshape your data: X[None] is one row, X[:, None] one column."
        elif shape is not None and len(shape) == 2:
            known = f" (0 feature(s) (shape={shape}) while a minimum of 1 is required.)"
        got = type(data).__name__ if shape is None else list(shape)
        raise ValueError(f"X must be [N, D] with D at least 1; got {got}.{known}")
    if data.is_complex() if isinstance(data, Tensor) else data.dtype.kind == "c":
        raise ValueError(f"X must be real; got {data.dtype}. Complex data not supported.")


def _working_type(dtype: Any) -> torch.dtype:
    """float64 stays; everything else is worked on in float32."""
    return torch.float64 if dtype in (torch.float64, np.dtype(np.float64)) else torch.float32


def _device_of(data: Any, device: Any) -> torch.device:
    if device is not None:
        return torch.device(device)
    return data.device if isinstance(data, Tensor) else torch.device("cpu")


def _as_tensor(part: Tensor | np.ndarray) -> Tensor:
    if isinstance(part, Tensor):
        return part
    # torch warns of memory that it could not write to, and knows fewer types and no negative
    # strides: such parts are copied.
    shared = part.flags.writeable and not isinstance(part, np.memmap) and part.dtype.kind == "f"
    if shared and part.itemsize >= 4 and all(stride >= 0 for stride in part.strides):
        return torch.from_numpy(part)
    wide = np.float64 if part.dtype == np.float64 else np.float32
    return torch.from_numpy(np.array(part, dtype=wide, order="C"))


def _release(data: Any, at: slice) -> None:
    """Give pages of a memory map back, which would otherwise count as resident until evicted."""
    if not isinstance(data, np.memmap) or data.mode == "c" or not data.flags.c_contiguous:
        return
    pages = getattr(data, "_mmap", None)
    if pages is None or not hasattr(pages, "madvise"):
        return
    base = np.frombuffer(pages, np.uint8).__array_interface__["data"][0]
    start = data.__array_interface__["data"][0] - base
    row = data.strides[0]
    first = -(-(start + at.start * row) // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + at.stop * row) // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first:
        pages.madvise(mmap.MADV_DONTNEED, first, last - first)
