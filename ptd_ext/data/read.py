"""Reads the user's file or folder: the one place where `labels` and `train` do so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from ptd_ext.data.arrays import read_array_pair, read_arrays
from ptd_ext.data.delimited import SEPARATORS
from ptd_ext.data.image_folders import read_folder
from ptd_ext.data.tables import read_table
from ptd_ext.data.user_data import UserData, check_ids, digest
from ptd_ext.engine.settings.schedule import IMAGE_SIZE


def kind_of(path: str | os.PathLike[str]) -> str:
    """The kind of data at a path: "image_folder", "npz" or "table"."""
    path = Path(path)
    if path.is_dir():
        return "image_folder"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is neither a file nor a folder.{_nearest(path)}")
    ending = path.suffix.lower()
    if ending in (".npz", ".npy"):
        return "npz"
    if ending in (*SEPARATORS, ".parquet"):
        return "table"
    raise ValueError(
        f"{path} must be a folder of images or end in .csv, .tsv, .parquet, .npz or .npy."
    )


def _nearest(path: Path) -> str:
    """A question that names the most similar entry of its folder, if there is one."""
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    found = get_close_matches(path.name, names, 1)
    return f" Did you mean {path.with_name(found[0])}?" if found else ""


def read_data(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    text: str | None = None,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    image_size: int | None = None,
    parts: bool = False,
) -> UserData:
    """Read a .csv, .tsv, .parquet, .npz or .npy file, or a folder of images.

    Args:
        path: the file or folder. A .npz file holds rows or images as `x` and labels as `y`, and
            optionally `ids`, `class_names`, `y_clean`, `x_test`, `y_test` and `ids_test`. A folder
            holds a folder of images for each class, or such folders in `train`, `val` and `test`.
        label: the column of the labels; for a .npy file of rows, the .npy file of the labels.
        text: the column of text to learn from, instead of all others.
        columns: the columns to learn from, also if they look like ids; none for all.
        ignore: columns not to learn from.
        image_size: side of decoded images in pixels (default: 32).
        parts: whether to read test and validation parts too, for training. Without it, such parts
            of a .npz file are ignored, and a folder that has them is rejected.
    """
    path, kind = Path(path), kind_of(path)
    sources = [path, *([Path(label)] if label and path.suffix.lower() == ".npy" else [])]
    digests = {source: digest(source) for source in sources if source.exists()}
    size = IMAGE_SIZE if image_size is None else image_size
    data = _read(path, kind, label, text, columns, ignore, size, parts)
    for part in (data, data.test, data.validation):
        if part is not None:
            check_ids(part.ids, str(path))
    return replace(data, digests=digests)


def _read(
    path: Path,
    kind: str,
    label: str | None,
    text: str | None,
    columns: Sequence[str],
    ignore: Sequence[str],
    image_size: int,
    parts: bool,
) -> UserData:
    if kind == "image_folder":
        return read_folder(path, image_size, parts)
    if path.suffix.lower() == ".npy":
        return read_array_pair(path, label)
    if kind == "npz":
        if label is not None:
            raise ValueError(
                f"--label does not apply to {path}, which holds its labels as y; got {label!r}."
            )
        return read_arrays(path, parts)
    return read_table(path, label, text, columns, ignore)
