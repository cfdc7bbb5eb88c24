"""Reads the user's data from a file or a folder, and writes a cleaned copy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptd_ext.train.config.own_data import IMAGE_SIZE
from ptd_ext.train.data.formats.npy import read_npz
from ptd_ext.train.data.image_files import ImageFiles
from ptd_ext.train.data.sets.arrays import NPZ_TEXTS
from ptd_ext.train.data.sets.image_folder import list_images
from ptd_ext.utils.atomic_files import atomic_file
from ptd_ext.utils.bounded_files import shortened

__all__ = ["OwnData", "read_own_data"]

_ROW_ARRAYS = ("x", "y", "y_clean")  # of a .npz file; a test part keeps its rows
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class OwnData:
    """Rows with their given labels.

    Attributes:
        path: the file or folder.
        X: the rows to learn from.
        y: given labels, [N].
        ids: file names of images, otherwise row numbers, [N].
        shown: the rows as the report shows them; None to show X.
        source: a cleaned copy is made from it: a data frame, arrays by name, or None for a folder.
        label: the name of the labels in the source.
    """

    path: Path
    X: Any
    y: Any
    ids: NDArray[Any]
    shown: Any
    source: Any
    label: str

    def write_cleaned(self, path: Path, keep: NDArray[np.bool_], labels: NDArray[Any]) -> None:
        """Write the rows to keep with new labels, in the form that they came in.

        For a folder of images, a CSV of file names and labels is written; no image is moved.
        """
        with atomic_file(path) as temporary:
            if isinstance(self.source, dict):
                arrays = {
                    name: array[keep] if name in _ROW_ARRAYS else array
                    for name, array in self.source.items()
                }
                arrays[self.label] = labels[keep]
                with open(temporary, "wb") as file:
                    np.savez(file, **arrays)
                return
            frame = self.source
            if frame is None:
                pandas = _pandas("A folder of images")
                frame = pandas.DataFrame({"file": self.ids})
            frame = frame.assign(**{self.label: labels})[keep]
            if path.suffix == ".parquet":
                frame.to_parquet(temporary, index=False)
            else:
                frame.to_csv(temporary, index=False, sep=_SEPARATORS.get(path.suffix, ","))


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
        path: the file or folder. A .npz file holds rows or images as `x` and labels as `y`; a
            folder holds a folder of images for each class.
        label: the column of the labels.
        text: the column of texts to learn from, instead of all others.
        leave_out: columns not to learn from.
        image_size: pixels a side that image files are read at; 32 by default.
    """
    path = Path(path)
    if path.is_dir():
        return _read_folder(path, image_size or IMAGE_SIZE)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is neither a file nor a folder.")
    if path.suffix == ".npz":
        return _read_arrays(path)
    if path.suffix not in (".csv", ".tsv", ".parquet"):
        raise ValueError(
            f"{path} must be a folder of images or end in .csv, .tsv, .parquet or .npz."
        )
    return _read_table(path, label, text, leave_out)


def _read_folder(path: Path, size: int) -> OwnData:
    names, labels, classes = list_images(path)
    images = ImageFiles(path, names, size)[np.arange(len(names))]
    given = np.array(classes, dtype=object)[np.array(labels)]
    return OwnData(path, images, given, np.array(names, dtype=object), None, None, "label")


def _read_arrays(path: Path) -> OwnData:
    arrays, held = read_npz(path, lambda names: names, NPZ_TEXTS)
    for name in ("x", "y"):
        if name not in arrays:
            raise ValueError(
                f"{path} must hold x and y; it holds {shortened(', '.join(held) or 'none')}."
            )
    x: Any = arrays["x"]
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[1] > 4 and x.shape[3] <= 4:
        x = x.transpose(0, 3, 1, 2)
    if x.ndim == 4:
        x = torch.from_numpy(np.ascontiguousarray(x))
    return OwnData(path, x, arrays["y"], np.arange(len(x)), None, arrays, "y")


def _read_table(
    path: Path, label: str | None, text: str | None, leave_out: tuple[str, ...]
) -> OwnData:
    pandas = _pandas(f"{path.suffix} files")
    try:
        if path.suffix == ".parquet":
            frame = pandas.read_parquet(path)
        else:
            frame = pandas.read_csv(path, sep=_SEPARATORS[path.suffix])
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow.") from None
    except (ValueError, OSError) as error:
        reason = shortened(" ".join(str(error).split()).rstrip("."))
        raise ValueError(f"{path} cannot be read as a table: {reason}.") from None
    columns = [str(name) for name in frame.columns]
    named = shortened(", ".join(columns), 400)
    if label is None:
        raise ValueError(f"--label must name the column of the labels: {named}.")
    for name in (label, text, *leave_out):
        if name is not None and name not in columns:
            raise ValueError(f"{path} has no column {name!r}; it has {named}.")
    ids = np.arange(len(frame))
    if text is None:
        rows = frame.drop(columns=[label, *leave_out])
        return OwnData(path, rows, frame[label], ids, rows, frame, label)
    texts = frame[text].fillna("").astype(str)
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(sublinear_tf=True, min_df=2, strip_accents="unicode")
    try:
        matrix = vectors.fit_transform(texts)
    except ValueError as error:
        raise ValueError(f"column {text!r} of {path} holds no words: {error}.") from None
    return OwnData(path, matrix, frame[label], ids, texts.to_list(), frame, label)


def _pandas(what: str) -> Any:
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f'{what} need pandas: pip install "ptd_ext[labels]".') from None
    return pandas
