"""UserData: labelled rows from a file or folder, and how a cleaned copy of it is written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.labels import encode_labels
from ptd_ext.utils.bounded_files import machine_memory
from ptd_ext.utils.csv_files import check_csv_string

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
        write: as :meth:`write_copy`, without its checks.
        shown: the rows as the page shows them; None to show X.
        columns: the columns of a data frame, if the caller named those to learn from.
        classes: all classes in their order, if the data list them.
        y_clean: true labels, [N], if the data hold them.
        test: the test part, if the data have one.
        validation: the validation part, if the data have one.
        notes: messages on how the data were read.
        warnings: messages on possible problems of the data.
        digests: a digest of each file or folder that was read, from before it was read.
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
    digests: Mapping[Path, bytes] = field(default_factory=dict)

    def check_unchanged(self) -> None:
        """Raise ValueError if a file has changed since it was read: other rows have its labels."""
        for path, before in self.digests.items():
            if not path.exists() or digest(path) != before:
                raise ValueError(f"{path} changed while its labels were judged. Judge it again.")

    def write_copy(self, path: Path, keep: NDArray[np.bool_], labels: NDArray[Any]) -> None:
        """Write the rows to keep with new labels, in the format of the data.

        Of a folder of images, a CSV file of file names and labels is written; no image is moved.

        Args:
            path: the file to write.
            keep: true for the rows to keep, [N].
            labels: the new label of every row, [N].
        """
        self.check_unchanged()
        try:
            self.write(path, keep, labels)
        finally:  # the files are read again: a copy of changed data is removed
            try:
                self.check_unchanged()
            except ValueError:
                path.unlink(missing_ok=True)
                raise

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
        _check_string(name, what)
    different, rows = len(labels.classes), len(labels.codes)
    if different > max(_FEW_CLASSES, rows // 2):
        raise ValueError(
            f"{what} must hold several rows of each class; it holds {different:,} different labels "
            f"in {rows:,} rows. Is it the column of the labels?"
        )


def check_ids(ids: NDArray[Any], what: str) -> None:
    """Raise ValueError for ids that the table of labels could not hold."""
    if ids.dtype.kind in "OU":
        for each in ids.tolist():
            _check_string(str(each), f"the ids of {what}")


def _check_string(text: str, what: str) -> None:
    try:
        check_csv_string(text)
    except ValueError as error:
        raise ValueError(f"{what} must be strings that a table can hold: {error}") from None


def digest(path: Path) -> bytes:
    """The SHA-256 of a file; of a folder, that of the names, sizes and times of its files.

    It shows whether the data change while their labels are judged. Hidden files do not count.
    """
    found = hashlib.sha256()
    if path.is_dir():
        for folder, below, names in os.walk(path):
            below[:] = sorted(name for name in below if not name.startswith("."))
            for name in sorted(name for name in names if not name.startswith(".")):
                where = os.path.join(folder, name)
                about = os.stat(where)
                found.update(os.fsencode(os.path.relpath(where, path)))
                found.update(f"\0{about.st_size} {about.st_mtime_ns}\0".encode())
        return found.digest()
    with path.open("rb") as contents:
        while piece := contents.read(1 << 20):
            found.update(piece)
    return found.digest()
