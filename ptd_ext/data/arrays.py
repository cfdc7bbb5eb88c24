"""Arrays in a .npz file: rows or images with labels."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptd_ext.data.user_data import Part, UserData, check_labels
from ptd_ext.engine.rows.labels import join_ids
from ptd_ext.engine.rows.raw_rows import channels_last
from ptd_ext.utils.atomic_files import atomic_file
from ptd_ext.utils.bounded_files import reading, shortened
from ptd_ext.utils.formats.npy import read_npy, read_npz
from ptd_ext.utils.formats.zips import open_zip

_ROW_ARRAYS = ("x", "y", "y_clean", "ids")  # a cleaned copy drops rows of these
_TEST_ARRAYS = ("x_test", "y_test", "ids_test")
_PARTS = ("", "_test")
_LABELS = ("y", "y_clean", "y_test")
_STRINGS = (*_LABELS, "ids", "ids_test", "class_names")


def read_arrays(path: Path, parts: bool) -> UserData:
    """Read the arrays of a file that learning needs; no other is read.

    * `x`: rows [N, D] of numbers; or images [N, H, W], [N, H, W, channels] or [N, channels, H, W].
    * `y`: labels [N], numbers or strings.
    * `class_names`: strings [C], the names of classes 0 … C−1, or the order of string labels.
    * `ids`: an id for each row, integers or strings; row numbers by default.
    * `y_clean`: the true labels of `x`.
    * `x_test`, `y_test`, `ids_test`: a test part; read only if `parts`. Without ids its rows are
      numbered on from those of `x`.
    """
    wanted = (*_ROW_ARRAYS, *(_TEST_ARRAYS if parts else ()), "class_names")
    arrays, held = read_npz(path, lambda names: [n for n in wanted if n in names], _STRINGS)
    for name in ("x", "y"):
        if name not in arrays:
            names = shortened(", ".join(held) or "none")
            raise ValueError(f"{path} must hold x and y; it holds {names}.")
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise ValueError(f"{path} must hold both x_test and y_test, or neither.")
    x = _rows(arrays["x"], f"x of {path}")
    for name, array in arrays.items():
        rows = "x_test" if name in _TEST_ARRAYS else "x"
        if name != "class_names" and (array.ndim == 0 or len(array) != len(arrays[rows])):
            raise ValueError(
                f"{path} must hold one of {name} for each of the {len(arrays[rows]):,} rows of "
                f"{rows}; its shape is {list(array.shape)}."
            )
    labels, classes = _labels(arrays, path)
    check_labels(labels["y"], f"y of {path}")
    ids = _ids(arrays, path)
    test = None
    if "x_test" in arrays:
        rows = _rows(arrays["x_test"], f"x_test of {path}")
        test = Part(rows, labels["y_test"], ids[len(x) :])

    def write(copy: Path, keep: NDArray[np.bool_], new: NDArray[Any]) -> None:
        old = arrays["y"]  # [N], or [N, 1]
        if classes is not None and old.dtype.kind != "U":
            numbers = {name: number for number, name in enumerate(classes)}
            new = np.array([numbers[name] for name in new.tolist()], dtype=old.dtype)
        changed = {name: arrays[name] for name in _ROW_ARRAYS if name in arrays}
        _write_copy(path, copy, {**changed, "y": new.reshape(old.shape)}, keep)

    y, y_clean = labels["y"], labels.get("y_clean")
    return UserData(path, x, y, ids[: len(x)], write, classes=classes, y_clean=y_clean, test=test)


def read_array_pair(path: Path, label: str | None) -> UserData:
    """Read rows or images of a .npy file, and their labels of the .npy file `label`."""
    if label is None or Path(label).suffix.lower() != ".npy" or not Path(label).is_file():
        raise ValueError(f"--label must be the .npy file with the labels of {path}; got {label}.")
    array, y = read_npy(path), read_npy(Path(label), strings=True)
    x = _rows(array, str(path))
    if y.shape not in ((len(array),), (len(array), 1)):
        raise ValueError(
            f"{label} must hold one label for each of the {len(array):,} rows of {path}; its shape "
            f"is {list(y.shape)}."
        )
    y = y.reshape(-1)
    check_labels(y, label)

    def write(copy: Path, keep: NDArray[np.bool_], new: NDArray[Any]) -> None:
        with atomic_file(copy) as temporary, open(temporary, "wb") as file:
            np.savez(file, x=array[keep], y=new[keep])

    return UserData(path, x, y, np.arange(len(array)), write)


def _rows(x: NDArray[Any], what: str) -> Any:
    """Rows [N, D] as an array, images as a tensor [N, channels, H, W]."""
    if x.ndim not in (2, 3, 4) or 0 in x.shape or x.dtype.kind == "c":
        raise ValueError(
            f"{what} must be rows [N, D] or images [N, H, W], [N, H, W, channels] or "
            f"[N, channels, H, W] of real numbers; it is {x.dtype} {list(x.shape)}."
        )
    if x.ndim > 2 and x.dtype.kind != "f" and x.dtype != np.uint8:
        raise ValueError(f"{what} must be images of uint8 or floats; it is {x.dtype}.")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x).reshape(len(x), -1).all(1))[0])
        raise ValueError(
            f"{what} must be finite; it holds NaN or infinity in row {row}. Fill missing values or "
            "leave the rows out."
        )
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    if x.ndim == 2:
        return x
    if x.ndim == 3:
        x = x[:, None]
    elif channels_last(x.shape):
        x = x.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(x))


def _labels(
    arrays: dict[str, NDArray[Any]], path: Path
) -> tuple[dict[str, NDArray[Any]], tuple[Any, ...] | None]:
    """The label arrays by name, and the classes if the file lists them."""
    labels = {name: arrays[name] for name in _LABELS if name in arrays}
    for name, array in labels.items():
        if array.ndim == 2 and array.shape[1] == 1:
            labels[name] = array[:, 0]
        if (array.dtype.kind == "U") != (arrays["y"].dtype.kind == "U"):
            raise ValueError(
                f"{name} of {path} must be of the same kind as y, {arrays['y'].dtype}; it is "
                f"{array.dtype}."
            )
    names = arrays.get("class_names")
    if names is None:
        return labels, None
    distinct = len(set(names.tolist())) == names.size
    if names.dtype.kind != "U" or names.ndim != 1 or not distinct:
        raise ValueError(
            f"class_names of {path} must be strings [C], all different; it is {names.dtype} "
            f"{list(names.shape)}."
        )
    for name, array in labels.items():
        if array.dtype.kind == "U":
            unknown = set(array.reshape(-1).tolist()) - set(names.tolist())
            if unknown:
                raise ValueError(
                    f"{name} of {path} holds {shortened(min(unknown))!r}, which is not among "
                    "class_names."
                )
        elif array.dtype.kind in "iu":
            if len(array) and not 0 <= array.min() <= array.max() < len(names):
                raise ValueError(
                    f"class_names of {path} must have a name for every class; it has "
                    f"{len(names)}, and {name} is from {array.min()} to {array.max()}."
                )
            labels[name] = names[array]
        else:
            raise ValueError(
                f"{name} of {path} must hold integers or strings, as class_names are given; it is "
                f"{array.dtype}."
            )
    return labels, tuple(names.tolist())


def _ids(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    """The ids of all rows, those of the test part last."""
    counts = {f"ids{part}": len(arrays[f"x{part}"]) for part in _PARTS if f"x{part}" in arrays}
    if not counts.keys() & arrays.keys():
        return np.arange(sum(counts.values()))
    found = []
    for name, count in counts.items():
        ids = arrays.get(name)
        if ids is None or ids.dtype.kind not in "iuU" or ids.shape != (count,):
            got = "none" if ids is None else f"{ids.dtype} {list(ids.shape)}"
            raise ValueError(f"{name} of {path} must be integers or strings [{count}]; got {got}.")
        found.append(ids)
    if len({ids.dtype.kind == "U" for ids in found}) > 1:
        raise ValueError(f"{path} must hold ids and ids_test of one kind, or neither.")
    return join_ids(found)


def _write_copy(
    path: Path, copy: Path, arrays: dict[str, NDArray[Any]], keep: NDArray[np.bool_]
) -> None:
    """Copy the file with the rows to keep of `arrays`; other members are copied unchanged."""
    with (
        atomic_file(copy) as temporary,
        reading(path, "a .npz file"),
        open_zip(path) as archive,
        zipfile.ZipFile(temporary, "w") as target,
    ):
        # np.savez takes names as arguments, so that it cannot write an array called "file".
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with target.open(zipfile.ZipInfo(member.filename), "w", force_zip64=True) as file:
                if name in arrays and name != member.filename:
                    np.lib.format.write_array(file, arrays[name][keep], allow_pickle=False)
                else:
                    with archive.open(member) as source:
                        shutil.copyfileobj(source, file)
