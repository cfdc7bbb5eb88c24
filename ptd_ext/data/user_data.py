"""UserData: labelled rows from a file or folder, and how a cleaned copy of it is written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.labels import encode_labels
from ptd_ext.utils.bounded_files import machine_memory

_MAX_NAME = 1000  # characters of a class name; the page and the table repeat it
_FEW_CLASSES = 10  # classes that may have one row each

Copy = Callable[[Path, NDArray[np.bool_], NDArray[Any]], None]


@dataclass(frozen=True)
class Part:
    """Further rows with labels that belong to the same data.

    Attributes:
        X: the rows, of the same kind as those of the data.
        y: labels, [N].
        ids: ids, [N].
    """

    X: Any
    y: Any
    ids: NDArray[Any]


@dataclass(frozen=True)
class UserData:
    """Rows with their given labels.

    Attributes:
        path: the file or folder.
        X: the rows: a data frame, a list of texts, an array [N, D], a tensor of images
            [N, channels, H, W], or `ImageFiles`.
        y: given labels, [N].
        ids: file names of images, ids of a .npz file, the index of a .parquet file, otherwise
            row numbers, [N].
        write: writes the rows to keep with new labels to a path, in the format of the data; for a
            folder of images, a CSV file of file names and labels. No image is moved.
        shown: the rows as the page shows them; None to show X.
        columns: the columns of a data frame, if the caller named those to learn from.
        classes: all classes in their order, if the data list them.
        y_clean: true labels, [N], if the data hold them.
        test: the test part, if the data have one.
        validation: the validation part, if the data have one.
        notes: messages on how the data were read.
        warnings: messages on possible problems of the data.
    """

    path: Path
    X: Any
    y: Any
    ids: NDArray[Any]
    write: Copy
    shown: Any = None
    columns: tuple[str, ...] | None = None
    classes: tuple[Any, ...] | None = None
    y_clean: Any = None
    test: Part | None = None
    validation: Part | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def rows(self) -> Any:
        """X in memory: image files are decoded."""
        if not isinstance(self.X, ImageFiles):
            return self.X
        size, count = self.X.size, len(self.X)
        needed, memory = count * self.X.sample_shape.numel(), machine_memory()
        if needed > memory:
            raise ValueError(
                f"{self.path} holds {count:,} images of {size} × {size} pixels, which need "
                f"{needed:,} bytes; this machine has {memory:,}. Read smaller images: --image-size."
            )
        return self.X[np.arange(count)]


def check_labels(y: Any, what: str) -> None:
    """Raise ValueError unless labels are names of classes that can be learned."""
    try:
        labels = encode_labels(y, name=what)
    except TypeError as error:  # labels that are lists
        raise ValueError(f"{what} must hold classes: {error}") from None
    for code, name in enumerate(labels.names):
        if len(name) > _MAX_NAME:
            row = int(np.flatnonzero(labels.codes == code)[0])
            raise ValueError(
                f"{what} must hold class names of at most {_MAX_NAME:,} characters; the label in "
                f"row {row} has {len(name):,}. Is it the column of the labels?"
            )
    different, rows = len(labels.classes), len(labels.codes)
    if different > max(_FEW_CLASSES, rows // 2):
        raise ValueError(
            f"{what} must hold several rows of each class; it holds {different:,} different labels "
            f"in {rows:,} rows. Is it the column of the labels?"
        )


def digest(path: Path) -> bytes:
    """A checksum of a file, which shows whether it changes while its labels are judged."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.digest()
