"""Folders of images, one for each class."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.data.user_data import Part, UserData, check_labels
from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.utils.csv_files import write_csv

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_PART_NAMES = {"train", "training", "test", "val", "valid", "validation"}


def read_folder(path: Path, size: int, parts: bool) -> UserData:
    """Read `path/<class>/…`, and if `parts`, `path/train/<class>/…` with `val` and `test` beside.

    Folders within a class belong to it. Without `test`, `val` is the test part.

    Args:
        path: the folder.
        size: side of decoded images in pixels.
        parts: whether the folder may hold parts.
    """
    found = [name for name in ("train", "val", "test") if (path / name).is_dir()]
    divided = parts and "train" in found and len(found) > 1
    place = path / "train" if divided else path
    classes = _folders(place)
    if len(classes) < 2:
        raise ValueError(f"{place} must hold a folder for each of two or more classes.")
    if not divided and {name.lower() for name in classes} <= _PART_NAMES:
        raise ValueError(
            f"{path} must hold a folder for each class; {' and '.join(classes)} look like parts "
            f"of a data set. Give one of them, such as {path / classes[0]}."
        )

    def part(name: str) -> Part:
        names, labels = _images(path, name, classes)
        return Part(ImageFiles(path, names, size), labels, np.array(names, dtype=object))

    first = part("train" if divided else "")
    held = [part(name) for name in ("test", "val") if divided and name in found]
    check_labels(first.y, f"the class folders of {place}")

    def write(copy: Path, keep: NDArray[np.bool_], labels: NDArray[Any]) -> None:
        rows = zip(first.ids[keep].tolist(), labels[keep].tolist(), strict=True)
        write_csv(copy, ("file", "label"), rows)

    return UserData(
        path,
        *(first.X, first.y, first.ids, write),
        classes=tuple(classes),
        test=held[0] if held else None,
        validation=held[1] if len(held) > 1 else None,
    )


def _folders(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir() if p.is_dir() and not p.name.startswith("."))


def _images(root: Path, part: str, classes: list[str]) -> tuple[list[str], NDArray[Any]]:
    """File names relative to the root, and labels, of one part."""
    unknown = set(_folders(root / part)) - set(classes)
    if unknown:
        raise ValueError(
            f"{root / part / min(unknown)} is a class that {root}/train does not have."
        )
    names, labels = [], []
    for label in classes:
        for folder, below, files in os.walk(root / part / label):
            below.sort()
            for name in sorted(files):
                # Other systems leave hidden files beside images, such as ._1.png of macOS.
                if name.lower().endswith(ENDINGS) and not name.startswith("."):
                    names.append(os.path.relpath(os.path.join(folder, name), root))
                    labels.append(label)
    if not names:
        raise ValueError(f"{root / part} must hold images ({', '.join(ENDINGS)}); it has none.")
    return names, np.array(labels, dtype=object)
