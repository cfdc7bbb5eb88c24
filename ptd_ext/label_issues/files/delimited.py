"""Tables in .csv and .tsv files: read for learning, and copied cell by cell."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.utils.bounded_files import ContentError

__all__ = [
    "SEPARATORS",
    "labels_as_written",
    "read_delimited",
    "write_changed_copy",
    "write_file_names",
]

SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MOST_COLUMNS = 100_000  # each takes some kilobytes and a good deal of time in pandas


def read_delimited(pandas: Any, path: Path) -> tuple[Any, list[str]]:
    """The table, and the names in its first line as they stand there.

    pandas makes the second of two equal names another one, which could hide a copy of the labels.
    """
    separator = SEPARATORS[path.suffix.lower()]
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            columns = next((cells for cells in csv.reader(file, delimiter=separator) if cells), [])
    except csv.Error as error:
        raise ContentError(f"must begin with a line of names: {error}") from None
    if len(columns) > _MOST_COLUMNS:
        raise ContentError(f"may have {_MOST_COLUMNS:,} columns; it has {len(columns):,}")
    # In pieces, as pandas reads by default, a column could come out as numbers and texts.
    frame = pandas.read_csv(path, sep=separator, low_memory=False)
    if not isinstance(frame.index, pandas.RangeIndex) or frame.shape[1] != len(columns):
        raise ContentError("must have as many cells in a row as names in its first line")
    return frame, columns


def labels_as_written(pandas: Any, path: Path, parsed: Any, position: int) -> Any:
    """The labels as they stand in the file, such as 007 or TRUE, or as numbers if nothing is lost.

    Args:
        pandas: the module.
        path: the file.
        parsed: the column of the labels as pandas takes it, [N].
        position: the number of the column.
    """
    texts = pandas.read_csv(
        path, usecols=[position], dtype=str, na_filter=False, low_memory=False,
        sep=SEPARATORS[path.suffix.lower()],
    ).iloc[:, 0]  # fmt: skip
    missing = np.flatnonzero(parsed.isna())
    if len(missing):
        row = int(missing[0])
        raise ValueError(
            f"{path} holds no label in row {row}: {str(texts.iloc[row])!r} stands for a missing "
            "one. Leave rows without a label out, or give them a class of their own."
        )
    if parsed.dtype.kind == "f":
        # A copy must not hold 1.00 and 1.0; if the file itself does, they are one class.
        kept = texts.nunique() == parsed.nunique() and (texts != parsed.astype(str)).any()
        return texts if kept and (parsed % 1 == 0).all() else parsed
    if parsed.dtype.kind in "iu" and (texts.str.strip() == parsed.astype(str)).all():
        return parsed
    return texts


def write_changed_copy(
    pandas: Any,
    path: Path,
    copy: str,
    position: int,
    keep: NDArray[np.bool_],
    changes: dict[int, Any],
) -> None:
    """Copy the rows to keep, all cells as they are but for labels that change.

    Args:
        pandas: the module.
        path: the file.
        copy: the file to write.
        position: the number of the column of the labels.
        keep: true for the rows to keep, [N].
        changes: new labels by row.
    """
    separator = SEPARATORS[path.suffix.lower()]
    cells = pandas.read_csv(
        path, sep=separator, header=None, dtype=str, na_filter=False, low_memory=False
    )
    if len(cells) != len(keep) + 1:
        raise ValueError(
            f"{path} has {len(cells) - 1:,} rows and had {len(keep):,} when it was read: it must "
            "not change while its labels are judged."
        )
    for row, label in changes.items():
        cells.iat[row + 1, position] = str(label)
    kept = cells[np.concatenate([[True], keep])]
    kept.to_csv(copy, index=False, header=False, sep=separator)


def write_file_names(path: str, names: NDArray[Any], labels: NDArray[Any]) -> None:
    """Write a table of the names of files and their labels."""
    # Names of files may have bytes that are no text; they are written as they are.
    with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("file", "label"))
        writer.writerows(zip(names.tolist(), labels.tolist(), strict=True))
