"""The user's data in a .npz file: x and y, and x_test and y_test if there is a test split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.train.data.dataset import MAX_CLASSES, DataSet, as_labels, channel_statistics
from ptd_ext.train.data.formats.npy import read_npz
from ptd_ext.train.data.split import TEST_SHARE, split
from ptd_ext.utils.bounded_files import shortened

__all__ = ["NPZ_TEXTS", "as_inputs", "channels_last", "load_npz"]

_LABELS = ("y", "y_clean", "y_test")
NPZ_TEXTS = (*_LABELS, "ids", "ids_test", "class_names")  # the arrays that may hold texts
_NAMES = ("x", "x_test", *NPZ_TEXTS)
# Images are recognised by a last dimension as small as this, unless the second is.
_CHANNELS = (1, 2, 3, 4)


def load_npz(root: Path | str | None, seed: int) -> DataSet:
    """The arrays of a file, which is `root` itself.

    * `x`: rows [N, D] of numbers; or images [N, H, W], [N, H, W, channels] or
      [N, channels, H, W], uint8 or floats.
    * `y`: whole numbers [N], or texts. Whole numbers have as many classes as the largest in the
      file plus one; texts are sorted.
    * `x_test`, `y_test`: a test part. Without it a random fifth is set apart by the seed. Its rows
      are numbered on from those of `x`.
    * `y_clean`: the true labels of `x`. If it is there, `y` counts as noisy, and a test part that
      is set apart from `x` has its labels from `y_clean`.
    * `ids`, `ids_test`: an id for each row of `x` and `x_test`, all different, whole numbers or
      texts; row numbers by default.
    * `class_names`: a text for each class, where labels are whole numbers.
    """
    if root is None:
        raise ValueError("npz needs root, the .npz file with x and y; got None.")
    path = Path(root)
    if not path.is_file():
        raise FileNotFoundError(f"npz needs root to be a .npz file; {path} is not a file.")
    arrays, held = read_npz(path, lambda held: [n for n in _NAMES if n in held], NPZ_TEXTS)
    for name in ("x", "y"):
        if name not in arrays:
            names = shortened(", ".join(held) or "none")
            raise ValueError(f"{path} must hold x and y; it holds {names}.")
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise ValueError(f"{path} must hold both x_test and y_test, or neither.")
    inputs: dict[str, Tensor] = {
        name: as_inputs(arrays[name], f"{name} of {path}")
        for name in ("x", "x_test")
        if name in arrays
    }
    labels, class_names = _classes(arrays, path)
    for one, other in (("x", "y"), ("x", "y_clean"), ("x_test", "y_test")):
        if other in labels and len(inputs[one]) != len(labels[other]):
            raise ValueError(
                f"{path} must have one label per sample; {one} has {len(inputs[one]):,} samples, "
                f"{other} {len(labels[other]):,} labels."
            )
    x, y, clean = inputs["x"], labels["y"], labels.get("y_clean")
    ids = _ids(arrays, len(x), len(inputs.get("x_test", ())), path)
    if "x_test" in inputs:
        test_inputs, test_labels = inputs["x_test"], labels["y_test"]
        test_given, clean_test = test_labels, False
        train, test = torch.arange(len(x)), torch.arange(len(x), len(x) + len(test_inputs))
    else:
        train, test = split(len(x), int(len(x) * TEST_SHARE), seed)
        test_given, clean_test = y[test], clean is not None
        test_inputs, test_labels = x[test], (y if clean is None else clean)[test]
        x, y, clean = x[train], y[train], None if clean is None else clean[train]
    mean, std = channel_statistics(x) if x.dim() == 4 else (None, None)
    return DataSet(
        "npz",
        *(x, y, test_inputs, test_labels),
        classes=len(class_names),
        class_names=class_names,
        mean=mean,
        std=std,
        noisy=clean is not None,
        clean_labels=clean,
        train_rows=train,
        test_rows=test,
        test_given=test_given,
        row_names=ids,
        clean_test=clean_test,
    )


def _classes(
    arrays: dict[str, np.ndarray], path: Path
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Class indices of all label arrays, and the names of the classes."""
    given = {name: array for name, array in arrays.items() if name in _LABELS}
    names = arrays.get("class_names")
    if names is not None and (names.dtype.kind != "U" or names.ndim != 1):
        raise ValueError(f"class_names of {path} must be texts [C]; got {names.dtype}.")
    if any(array.dtype.kind == "U" for array in given.values()):
        return _text_classes(given, names, path)
    labels = {
        name: as_labels(array, f"{name} of {path}", 0, MAX_CLASSES - 1)
        for name, array in given.items()
    }
    classes = max((int(part.max()) for part in labels.values() if len(part)), default=0) + 1
    if names is None:
        return labels, tuple(str(label) for label in range(classes))
    if len(names) < classes or len(set(names.tolist())) != len(names):
        raise ValueError(
            f"class_names of {path} must be a different name for each of {classes} classes; got "
            f"{len(names)}."
        )
    return labels, tuple(names.tolist())


def _text_classes(
    given: dict[str, np.ndarray], names: NDArray[Any] | None, path: Path
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    for name, array in given.items():
        if array.dtype.kind != "U" or array.ndim != 1:
            raise ValueError(
                f"{name} of {path} must be texts [N], as other labels of the file are; got "
                f"{array.dtype} {list(array.shape)}."
            )
    found = np.unique(np.concatenate(list(given.values()))) if names is None else names
    if len(found) > MAX_CLASSES:
        raise ValueError(
            f"{path} must have at most {MAX_CLASSES:,} classes; it has {len(found):,}."
        )
    index = {label: position for position, label in enumerate(found.tolist())}
    labels = {}
    for name, array in given.items():
        codes = [index.get(label, -1) for label in array.tolist()]
        if -1 in codes:
            odd = array[codes.index(-1)]
            raise ValueError(f"{name} of {path} holds {shortened(odd)}, not among class_names.")
        labels[name] = torch.tensor(codes, dtype=torch.int64)
    return labels, tuple(found.tolist())


def _ids(
    arrays: dict[str, np.ndarray], rows: int, test_rows: int, path: Path
) -> NDArray[Any] | None:
    """The ids of all rows, those of the test part last; None if the file holds none."""
    found: list[NDArray[Any]] = []
    for name, count in (("ids", rows), ("ids_test", test_rows)):
        if name not in arrays and not (count and found):
            continue
        ids = arrays.get(name)
        if ids is None or ids.dtype.kind not in "iuU" or ids.shape != (count,):
            got = "none" if ids is None else f"{ids.dtype} {list(ids.shape)}"
            raise ValueError(
                f"{name} of {path} must be whole numbers or texts [{count}]; got {got}."
            )
        found.append(ids)
    if not found:
        return None
    kinds = {ids.dtype.kind == "U" for ids in found}
    together = np.concatenate(found)
    if len(together) != rows + test_rows or len(kinds) > 1:
        raise ValueError(f"{path} must hold ids and ids_test of one kind, or neither.")
    if len(np.unique(together)) != len(together):
        raise ValueError(f"ids of {path} must be different from each other.")
    return together


def channels_last(shape: Sequence[int]) -> bool:
    """Whether an array of this shape looks like images [N, H, W, channels]."""
    return len(shape) == 4 and shape[1] not in _CHANNELS and shape[3] in _CHANNELS


def as_inputs(array: np.ndarray, what: str) -> Tensor:
    """Rows or images of an array, in the layout that networks take.

    Args:
        array: As `x` of :func:`load_npz`.
        what: Its name, for error messages.
    """
    floats = array.dtype.kind == "f"
    if array.dtype.kind in "iu" and array.ndim == 2:
        array, floats = array.astype(np.float32), True
    if not (array.dtype == np.uint8 and array.ndim in (3, 4)) and not (
        floats and array.ndim in (2, 3, 4)
    ):
        raise ValueError(
            f"{what} must be uint8 images [N, H, W], [N, H, W, channels] or "
            f"[N, channels, H, W], or rows [N, D] or float images; got {array.dtype} "
            f"{list(array.shape)}."
        )
    if 0 in array.shape[1:]:
        raise ValueError(f"{what} must not be empty; its shape is {list(array.shape)}.")
    if floats:
        # A number that float32 cannot hold becomes infinite, which the check below says better.
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise ValueError(f"{what} must be finite; it holds NaN or infinity.")
    if array.ndim == 3:
        array = array[:, None]
    elif channels_last(array.shape):
        array = array.transpose(0, 3, 1, 2)
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
