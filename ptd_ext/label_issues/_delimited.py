"""Tables in .csv and .tsv files: read for learning, and copied cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SEPARATORS", "check_once", "labels_as_written", "read_delimited", "write_changed_copy"]

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_delimited(pandas: Any, path: Path) -> tuple[Any, list[str]]:
    """The table, and the names in its first line as they stand there.

    pandas makes the second of two equal names another one, which could hide a copy of the labels.
    """
    options = {"sep": SEPARATORS[path.suffix.lower()]}
    # In pieces, as pandas reads by default, a column could come out as numbers and texts.
    frame = pandas.read_csv(path, low_memory=False, **options)
    if not isinstance(frame.index, pandas.RangeIndex):
        raise ValueError("its rows have more cells than its first line has names")
    first = pandas.read_csv(path, header=None, nrows=1, dtype=str, na_filter=False, **options)
    return frame, [str(name) for name in first.iloc[0]]


def check_once(path: Path, columns: list[str], name: str) -> None:
    """Raise unless the table has one column of this name."""
    if columns.count(name) > 1:
        raise ValueError(
            f"{path} has {columns.count(name)} columns named {name!r}: give each a name of its "
            "own, so that it is clear which is meant and none is learned from by mistake."
        )


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
        return parsed
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
