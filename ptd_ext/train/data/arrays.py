"""Data of one's own in a .npz file: x and y, and x_test and y_test where there is a test part."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ptd_ext.train.data.dataset import DataSet, channel_statistics
from ptd_ext.train.data.split import TEST_SHARE, split

__all__ = ["load_npz"]

_NAMES = ("x", "y", "x_test", "y_test", "y_clean")
# Images are recognised by a last dimension as small as this, unless the second is.
_CHANNELS = (1, 2, 3, 4)


def load_npz(root: Path | str | None, seed: int) -> DataSet:
    """The arrays of a file, which is `root` itself.

    * `x`: uint8 images [N, H, W], [N, H, W, channels] or [N, channels, H, W]; or floats, rows
      [N, D] or images of these shapes, as they are.
    * `y`: whole numbers [N]. The largest in the file plus one is the number of classes.
    * `x_test`, `y_test`: a clean test part. Without it a random fifth is set apart by the seed.
    * `y_clean`: the true labels of `x`, which says that `y` are noisy. They are then the labels of
      a test part that was set apart.
    """
    if root is None:
        raise ValueError("npz needs root, the .npz file with x and y; got None.")
    path = Path(root)
    if not path.is_file():
        raise FileNotFoundError(f"npz needs root to be a .npz file; {path} is not a file.")
    arrays = _read(path)
    for name in ("x", "y"):
        if name not in arrays:
            raise ValueError(f"{path} must hold x and y; it holds {', '.join(arrays) or 'none'}.")
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise ValueError(f"{path} must hold both x_test and y_test, or neither.")
    inputs = {name: _inputs(arrays[name], name, path) for name in ("x", "x_test") if name in arrays}
    labels = {name: _labels(a, name, path) for name, a in arrays.items() if name.startswith("y")}
    for one, other in (("x", "y"), ("x", "y_clean"), ("x_test", "y_test")):
        if other in labels and len(inputs[one]) != len(labels[other]):
            raise ValueError(
                f"{path} must have one label per sample; {one} has {len(inputs[one]):,} samples, "
                f"{other} {len(labels[other]):,} labels."
            )
    x, y, clean = inputs["x"], labels["y"], labels.get("y_clean")
    classes = max(int(part.max()) for part in labels.values() if len(part)) + 1
    if "x_test" in inputs:
        test_inputs, test_labels = inputs["x_test"], labels["y_test"]
    else:
        train, test = split(len(x), int(len(x) * TEST_SHARE), seed)
        test_inputs, test_labels = x[test], (y if clean is None else clean)[test]
        x, y, clean = x[train], y[train], None if clean is None else clean[train]
    mean, std = channel_statistics(x) if x.dim() == 4 else (None, None)
    return DataSet(
        "npz",
        *(x, y, test_inputs, test_labels),
        classes=classes,
        class_names=tuple(str(label) for label in range(classes)),
        mean=mean,
        std=std,
        noisy=clean is not None,
        clean_labels=clean,
    )


def _read(path: Path) -> dict[str, np.ndarray]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in _NAMES if f"{name}.npy" in archive.namelist()]
            total = sum(archive.getinfo(f"{name}.npy").file_size for name in members)
            if total > memory:
                raise _RefusedError(
                    f"declares {total:,} bytes, but this machine's memory is {memory:,}"
                )
            for name in members:
                _check_header(archive, name)
        with np.load(path, allow_pickle=False) as content:
            return {name: content[name] for name in members}
    except _RefusedError as error:
        raise ValueError(f"{path} {error}.") from None
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is cut off, damaged or no .npz file: {error}.") from None


class _RefusedError(Exception):
    """The file is intact, and yet not to be loaded."""


def _check_header(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse objects, and a shape that does not fit the bytes that the archive holds of it."""
    size = archive.getinfo(f"{name}.npy").file_size
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        reader = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if reader is None:
            raise _RefusedError(
                f"holds {name} in version {version} of the format, which is for names"
            )
        shape, _, kind = reader(file)
    if kind.hasobject:
        raise _RefusedError(f"must hold numbers; {name} holds Python objects, which could run code")
    if int(np.prod(shape, dtype=object)) * kind.itemsize > size:
        raise _RefusedError(
            f"is damaged: {name} is {list(shape)}, more than its {size:,} bytes hold"
        )


def _inputs(array: np.ndarray, name: str, path: Path) -> Tensor:
    floats = array.dtype.kind == "f"
    if not (array.dtype == np.uint8 and array.ndim in (3, 4)) and not (
        floats and array.ndim in (2, 3, 4)
    ):
        raise ValueError(
            f"{name} of {path} must be uint8 images [N, H, W], [N, H, W, channels] or "
            f"[N, channels, H, W], or float rows [N, D] or images; got {array.dtype} "
            f"{list(array.shape)}."
        )
    if floats:
        array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} of {path} must be finite; it holds NaN or infinity.")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[1] not in _CHANNELS and array.shape[3] in _CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def _labels(array: np.ndarray, name: str, path: Path) -> Tensor:
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError(
            f"{name} of {path} must be whole numbers [N]; got {array.dtype} {list(array.shape)}."
        )
    labels = torch.from_numpy(array.astype(np.int64))
    if len(labels) and labels.min() < 0:
        raise ValueError(f"{name} of {path} must not be negative; got {int(labels.min())}.")
    return labels
