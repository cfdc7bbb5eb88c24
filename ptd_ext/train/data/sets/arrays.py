"""The user's data in a .npz file: x and y, and x_test and y_test if there is a test split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ptd_ext.train.data.dataset import MAX_CLASSES, DataSet, as_labels, channel_statistics
from ptd_ext.train.data.formats.npy import read_npz
from ptd_ext.train.data.split import TEST_SHARE, split
from ptd_ext.utils.bounded_files import shortened

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
    * `y_clean`: the true labels of `x`. If it is there, `y` counts as noisy, and a test part that
      is set apart from `x` has its labels from `y_clean`.
    """
    if root is None:
        raise ValueError("npz needs root, the .npz file with x and y; got None.")
    path = Path(root)
    if not path.is_file():
        raise FileNotFoundError(f"npz needs root to be a .npz file; {path} is not a file.")
    arrays, held = read_npz(path, lambda held: [name for name in _NAMES if name in held])
    for name in ("x", "y"):
        if name not in arrays:
            names = shortened(", ".join(held) or "none")
            raise ValueError(f"{path} must hold x and y; it holds {names}.")
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise ValueError(f"{path} must hold both x_test and y_test, or neither.")
    inputs: dict[str, Tensor] = {
        name: _inputs(arrays[name], name, path) for name in ("x", "x_test") if name in arrays
    }
    labels = {
        name: as_labels(array, f"{name} of {path}", 0, MAX_CLASSES - 1)
        for name, array in arrays.items()
        if name.startswith("y")
    }
    for one, other in (("x", "y"), ("x", "y_clean"), ("x_test", "y_test")):
        if other in labels and len(inputs[one]) != len(labels[other]):
            raise ValueError(
                f"{path} must have one label per sample; {one} has {len(inputs[one]):,} samples, "
                f"{other} {len(labels[other]):,} labels."
            )
    x, y, clean = inputs["x"], labels["y"], labels.get("y_clean")
    classes = max((int(part.max()) for part in labels.values() if len(part)), default=0) + 1
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
    if 0 in array.shape[1:]:
        raise ValueError(f"{name} of {path} must not be empty; its shape is {list(array.shape)}.")
    if floats:
        # A number that float32 cannot hold becomes infinite, which the check below says better.
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} of {path} must be finite; it holds NaN or infinity.")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[1] not in _CHANNELS and array.shape[3] in _CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
