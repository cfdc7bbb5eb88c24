"""Reads the user's data from a file or a folder, and writes a cleaned copy."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptd_ext.label_issues.files.arrays import (
    class_numbers,
    read_class_names,
    read_row_arrays,
    write_changed_arrays,
)
from ptd_ext.label_issues.files.delimited import (
    SEPARATORS,
    labels_as_written,
    read_delimited,
    write_changed_copy,
    write_file_names,
)
from ptd_ext.label_issues.files.parquet import read_parquet
from ptd_ext.label_issues.inputs.columns import is_frame
from ptd_ext.label_issues.inputs.labels import encode_labels
from ptd_ext.train.config.own_data import IMAGE_SIZE
from ptd_ext.train.data.image_files import ImageFiles
from ptd_ext.train.data.sets.arrays import channels_last
from ptd_ext.train.data.sets.image_folder import list_images
from ptd_ext.utils.atomic_files import atomic_file
from ptd_ext.utils.bounded_files import ContentError, shortened

__all__ = ["OwnData", "read_own_data"]

_MOST_CHARACTERS = 1000  # of a label; the report and the table repeat them
_MOST_REASON = 200  # characters of another library's sentence
_FEW_CLASSES = 10  # that may have one row each
_FIRST_ROWS = 1000  # of a column that are looked at first
_SPLITS = {"train", "training", "test", "val", "valid", "validation"}


@dataclass(frozen=True)
class OwnData:
    """Rows with their given labels.

    Attributes:
        path: the file or folder.
        X: the rows to learn from.
        y: given labels, [N].
        ids: file names of images, ids of a .npz file, the index of a .parquet file, otherwise
            row numbers, [N].
        shown: the rows as the report shows them; None to show X.
        source: what a cleaned copy is made from: a data frame, arrays by name, or None.
        label: the name of the labels in the source.
        position: the number of the column of the labels.
        class_names: the names in `y` of classes that the source has numbers for.
        notes: sentences on what was done with the data.
        warnings: sentences on what to distrust.
    """

    path: Path
    X: Any
    y: Any
    ids: NDArray[Any]
    shown: Any = None
    source: Any = None
    label: str = "label"
    position: int = 0
    class_names: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def write_cleaned(self, path: Path, keep: NDArray[np.bool_], labels: NDArray[Any]) -> None:
        """Write the rows to keep with new labels, in the form that they came in.

        For a folder of images, a CSV of file names and labels is written; no image is moved.
        """
        with atomic_file(path) as temporary:
            if self.path.is_dir():
                write_file_names(temporary, self.ids[keep], labels[keep])
            elif isinstance(self.source, dict):
                old = self.source[self.label]  # [N], or [N, 1]
                if self.class_names is not None:
                    labels = class_numbers(labels, self.class_names, old.dtype)
                arrays = {**self.source, self.label: labels.reshape(old.shape)}
                write_changed_arrays(self.path, temporary, arrays, keep)
            elif self.path.suffix.lower() in SEPARATORS:
                given = self.y.tolist()
                changes = {k: new for k, new in enumerate(labels.tolist()) if new != given[k]}
                pandas = _pandas("Tables")
                write_changed_copy(pandas, self.path, temporary, self.position, keep, changes)
            else:
                column = self.source.iloc[:, self.position].copy()  # keeps its type
                for row in np.flatnonzero(labels != self.y.to_numpy()):
                    column.iloc[row] = labels[row]
                frame = self.source.copy(deep=False)
                frame.isetitem(self.position, column)
                # Numbers of rows are no column of the file, also where rows are dropped.
                plain = isinstance(frame.index, _pandas("Tables").RangeIndex)
                frame[keep].to_parquet(temporary, index=False if plain else None)


def read_own_data(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    text: str | None = None,
    leave_out: tuple[str, ...] = (),
    image_size: int | None = None,
) -> OwnData:
    """Read a .csv, .tsv, .parquet or .npz file, or a folder of images.

    Args:
        path: the file or folder. A .npz file holds rows or images as `x` and labels as `y`, and may
            hold `ids` and `class_names`; a folder holds a folder of images for each class.
        label: the column of the labels.
        text: the column of texts to learn from, instead of all others.
        leave_out: columns not to learn from.
        image_size: pixels a side that image files are read at; 32 by default.
    """
    path = Path(path)
    if path.is_dir():
        found = _read_folder(path, IMAGE_SIZE if image_size is None else image_size)
    elif not path.is_file():
        raise FileNotFoundError(f"{path} is neither a file nor a folder.")
    elif path.suffix.lower() == ".npz":
        found = _read_arrays(path)
    elif path.suffix.lower() in (*SEPARATORS, ".parquet"):
        found = _read_table(path, label, text, leave_out)
    else:
        raise ValueError(
            f"{path} must be a folder of images or end in .csv, .tsv, .parquet or .npz."
        )
    _check_labels(found)
    return _warned_of_copies(found) if is_frame(found.X) else found


def _read_folder(path: Path, size: int) -> OwnData:
    names, labels, classes = list_images(path)
    if {name.lower() for name in classes} <= _SPLITS:
        raise ValueError(
            f"{path} must hold a folder for each class; {' and '.join(classes)} look like parts "
            f"of a data set. Give one of them, such as {path / classes[0]}."
        )
    files = ImageFiles(path, names, size)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if (needed := len(files) * files.sample_shape.numel()) > memory:
        raise ValueError(
            f"{path} holds {len(files):,} images, which take {needed:,} bytes at {size} × {size} "
            f"pixels; this machine's memory is {memory:,}. Read them smaller: --image-size."
        )
    images = files[np.arange(len(names))]
    given = np.array(classes, dtype=object)[np.array(labels)]
    return OwnData(path, images, given, np.array(names, dtype=object))


def _read_arrays(path: Path) -> OwnData:
    arrays = read_row_arrays(path)
    x: Any = arrays["x"]
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    if x.ndim == 3:
        x = x[:, None]
    elif channels_last(x.shape):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim == 4:
        x = torch.from_numpy(np.ascontiguousarray(x))
    ids = arrays.get("ids", np.arange(len(x)))
    y = arrays["y"]
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    names = read_class_names(path, y)
    given = y if names is None else names[y]
    return OwnData(path, x, given, ids, source=arrays, label="y", class_names=names)


def _read_table(
    path: Path, label: str | None, text: str | None, leave_out: tuple[str, ...]
) -> OwnData:
    pandas = _pandas(f"{path.suffix} files")
    try:
        read = read_delimited if path.suffix.lower() in SEPARATORS else read_parquet
        frame, columns = read(pandas, path)
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be text in UTF-8, and is not: save it as that.") from None
    except ContentError as error:
        raise ValueError(f"{path} {error}.") from None
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).replace(str(path), "it").split()).rstrip(".")
        raise ValueError(
            f"{path} cannot be read as a table: {shortened(reason, _MOST_REASON)}."
        ) from None
    if label is None:
        raise ValueError(f"--label must name the column of the labels: {_listed(columns)}.")
    if text == label:
        raise ValueError(f"--text must name another column than the labels, {label!r}.")
    position = _position(path, columns, label)
    left_out = {position, *(_position(path, columns, name) for name in leave_out)}
    labels = frame.iloc[:, position]
    if path.suffix.lower() in SEPARATORS:
        labels = labels_as_written(pandas, path, labels, position)
    about: dict[str, Any] = {"source": frame, "label": label, "position": position}
    ids = np.asarray(frame.index)
    if text is not None:
        texts = frame.iloc[:, _position(path, columns, text)].astype(object)
        texts = texts.fillna("").astype(str)
        matrix = _text_vectors(texts, f"column {text!r} of {path}")
        return OwnData(path, matrix, labels, ids, shown=texts.to_list(), **about)
    notes: tuple[str, ...] = ()
    if position and columns[0] == "" and _are_row_numbers(frame.iloc[:, 0]):
        left_out.add(0)
        notes = ("The first column has no name and holds row numbers: it is not learned from.",)
    rows = frame.iloc[:, [k for k in range(len(columns)) if k not in left_out]]
    if not rows.shape[1]:
        raise ValueError(f"{path} has no column to learn from besides the labels.")
    return OwnData(path, rows, labels, ids, shown=rows, notes=notes, **about)


def _warned_of_copies(data: OwnData) -> OwnData:
    """The same rows, with a warning for each column that may be a copy of the labels."""
    classes = data.y.nunique()
    columns = [name for name in data.X.columns if _tells(data.X[name], data.y, classes)]
    warnings = tuple(
        f"Column {shortened(str(name))!r} tells the label of every row: it looks like a copy of "
        "the labels. If it is one, leave it out (--leave-out), or no label will look wrong."
        for name in columns
    )
    return dataclasses.replace(data, warnings=warnings)


def _tells(column: Any, labels: Any, classes: int) -> bool:
    """True if each value goes with one label, and each label with one value."""
    first = column.iloc[:_FIRST_ROWS]  # most columns have too many values already in these
    if column.dtype.kind == "O" and not all(isinstance(value, str) for value in first):
        return False
    if first.nunique() > classes or column.nunique() != classes:
        return False
    return len(set(zip(column.tolist(), labels.tolist(), strict=True))) == classes


def _position(path: Path, columns: list[str], name: str) -> int:
    """The number of the one column of this name."""
    if name not in columns:
        raise ValueError(f"{path} has no column {name!r}; it has {_listed(columns)}.")
    if columns.count(name) > 1:
        raise ValueError(
            f"{path} has {columns.count(name)} columns named {name!r}: give each a name of its "
            "own, so that it is clear which is meant and none is learned from by mistake."
        )
    return columns.index(name)


def _listed(columns: list[str]) -> str:
    return shortened(", ".join(column or '""' for column in columns), 400)


def _are_row_numbers(column: Any) -> bool:
    values = column.to_numpy()
    return values.dtype.kind == "i" and np.array_equal(values - values[:1], np.arange(len(values)))


def _text_vectors(texts: Any, what: str) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(sublinear_tf=True, min_df=2, strip_accents="unicode")
    try:
        return vectors.fit_transform(texts)
    except ValueError as error:
        raise ValueError(f"{what} holds no words: {error}.") from None


def _check_labels(data: OwnData) -> None:
    """Raise for labels that are no names of classes."""
    what = f"{data.label!r} of {data.path}"
    try:
        labels = encode_labels(data.y, name=what)
    except TypeError as error:  # labels that are lists
        raise ValueError(f"{what} must hold classes: {error}") from None
    for code, name in enumerate(labels.names):
        if len(name) > _MOST_CHARACTERS:
            row = int(np.flatnonzero(labels.codes == code)[0])
            raise ValueError(
                f"{what} holds a label of {len(name):,} characters in row {row}; the name of a "
                f"class may have {_MOST_CHARACTERS:,}. Does it hold the labels?"
            )
    different, rows = len(labels.classes), len(labels.codes)
    if different > max(_FEW_CLASSES, rows // 2):
        raise ValueError(
            f"{what} holds {different:,} different labels in {rows:,} rows: a class needs several "
            "rows to be learned. Does it hold the labels?"
        )


def _pandas(what: str) -> Any:
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f'{what} need pandas: pip install "ptd_ext[labels]".') from None
    return pandas
