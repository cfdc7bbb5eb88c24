"""Arrays in a .npz file: those that hold a value for every row, and a copy of all of them."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.train.data.formats.npy import read_npz
from ptd_ext.train.data.formats.zips import open_zip
from ptd_ext.train.data.sets.arrays import NPZ_TEXTS
from ptd_ext.utils.bounded_files import reading, shortened

__all__ = ["class_numbers", "read_class_names", "read_row_arrays", "write_changed_arrays"]

_ROW_ARRAYS = ("x", "y", "y_clean", "ids")  # a test part keeps its rows


def read_row_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file that hold a value for every row; no other is read."""
    arrays, held = read_npz(path, lambda names: [n for n in _ROW_ARRAYS if n in names], NPZ_TEXTS)
    for name in ("x", "y"):
        if name not in arrays:
            raise ValueError(
                f"{path} must hold x and y; it holds {shortened(', '.join(held) or 'none')}."
            )
    x = arrays["x"]
    if x.ndim not in (2, 3, 4) or 0 in x.shape or x.dtype.kind == "c":
        raise ValueError(
            f"x of {path} must be rows [N, D] or images [N, H, W], [N, H, W, channels] or "
            f"[N, channels, H, W] of real numbers; it is {x.dtype} {list(x.shape)}."
        )
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x).reshape(len(x), -1).all(1))[0])
        raise ValueError(
            f"x of {path} holds NaN or infinity in row {row}. Fill missing values or leave the "
            "rows out."
        )
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != len(x):
            raise ValueError(
                f"{path} must hold one of {name} for each of the {len(x):,} rows of x; "
                f"its shape is {list(array.shape)}."
            )
    return arrays


def read_class_names(path: Path, y: NDArray[Any]) -> NDArray[Any] | None:
    """The names of classes that are numbered in the file; None where it has none, or y has them."""
    names = read_npz(path, lambda held: [n for n in ("class_names",) if n in held], NPZ_TEXTS)[0]
    found = names.get("class_names")
    if found is None or y.dtype.kind not in "iu" or y.ndim != 1:
        return None
    texts = found.dtype.kind == "U" and found.ndim == 1
    if not texts or len(set(found.tolist())) != len(found):
        raise ValueError(
            f"class_names of {path} must be texts [C], all different; it is {found.dtype} "
            f"{list(found.shape)}."
        )
    if len(y) and not 0 <= y.min() <= y.max() < len(found):
        raise ValueError(
            f"class_names of {path} must have a name for every class; it has {len(found)}, and y "
            f"is from {y.min()} to {y.max()}."
        )
    return found


def class_numbers(labels: NDArray[Any], names: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers of classes given by name, as the file has them."""
    numbers = {name: number for number, name in enumerate(names.tolist())}
    return np.array([numbers[name] for name in labels.tolist()], dtype=dtype)


def write_changed_arrays(
    path: Path, copy: str, arrays: dict[str, NDArray[Any]], keep: NDArray[np.bool_]
) -> None:
    """Copy the file with the rows to keep of `arrays`; all other members are copied as they are."""
    with (
        reading(path, "a .npz file"),
        open_zip(path) as archive,
        zipfile.ZipFile(copy, "w") as target,
    ):
        # NumPy's savez takes names as arguments, so that it cannot write an array called "file".
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with target.open(zipfile.ZipInfo(member.filename), "w", force_zip64=True) as file:
                if name in arrays and name != member.filename:
                    np.lib.format.write_array(file, arrays[name][keep], allow_pickle=False)
                else:
                    with archive.open(member) as source:
                        shutil.copyfileobj(source, file)
