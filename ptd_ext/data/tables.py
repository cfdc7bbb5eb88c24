"""Tables in .csv, .tsv and .parquet files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.data.delimited import SEPARATORS, Delimited
from ptd_ext.data.parquet import Parquet
from ptd_ext.data.user_data import UserData, check_labels
from ptd_ext.engine.rows.column import texts_of
from ptd_ext.utils.bounded_files import ContentError, shortened

_MAX_REASON = 200  # characters of another library's error message
_FIRST_ROWS = 1000  # rows of a column that are examined before all of them are


def read_table(
    path: Path,
    label: str | None,
    text: str | None = None,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> UserData:
    """Read a table with a column of labels; see `read_data`."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f'{path.suffix} files need pandas: pip install "ptd_ext[all]".'
        ) from None
    table = _read(Delimited if path.suffix.lower() in SEPARATORS else Parquet, pandas, path)
    frame, names = table.frame, table.columns
    if label is None:
        raise ValueError(f"--label must name the column of the labels: {_listed(names)}.")
    if label == text or label in columns:
        flag = "--text" if label == text else "--columns"
        raise ValueError(f"{flag} must name a column other than the labels, {label!r}.")
    if text is not None and (columns or ignore):
        raise ValueError(f"--text learns from {text!r} alone: leave --columns and --ignore out.")
    position = _position(path, names, label)
    left_out = {position, *(_position(path, names, name) for name in ignore)}
    if columns:
        asked = {_position(path, names, name) for name in columns}
        left_out |= set(range(len(names))) - asked
    labels = table.labels(position)
    check_labels(labels, f"{label!r} of {path}")
    ids, given = np.asarray(frame.index), labels.tolist()

    def write(copy: Path, keep: NDArray[np.bool_], new: NDArray[Any]) -> None:
        changes = {row: each for row, each in enumerate(new.tolist()) if each != given[row]}
        table.write(copy, position, keep, changes)

    if text is not None:
        strings = texts_of(frame.iloc[:, _position(path, names, text)].to_numpy())
        return UserData(path, strings, labels, ids, write, shown=strings)
    notes: tuple[str, ...] = ()
    if position and names[0] == "" and _are_row_numbers(frame.iloc[:, 0]) and not columns:
        left_out.add(0)
        notes = ("The first column has no name and holds row numbers: it is not learned from.",)
    rows = frame.iloc[:, [k for k in range(len(names)) if k not in left_out]]
    if not rows.shape[1]:
        raise ValueError(f"{path} must have a column to learn from besides the labels.")
    warnings = tuple(_copies_of_labels(rows, labels))
    return UserData(
        path,
        *(rows, labels, ids, write),
        shown=rows,
        columns=tuple(map(str, rows.columns)) if columns else None,
        notes=notes,
        warnings=warnings,
    )


def _read(kind: Callable[[Any, Path], Any], pandas: Any, path: Path) -> Any:
    try:
        return kind(pandas, path)
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be UTF-8 text; it is not. Save it as UTF-8.") from None
    except ContentError as error:
        raise ValueError(f"{path} {error}.") from None
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).replace(str(path), "it").split()).rstrip(".")
        raise ValueError(
            f"{path} cannot be read as a table: {shortened(reason, _MAX_REASON)}."
        ) from None


def _copies_of_labels(rows: Any, labels: Any) -> list[str]:
    """A warning for each column that may be a copy of the labels."""
    n_classes = labels.nunique()
    return [
        f"Column {shortened(str(name))!r} determines the label of every row: it looks like a copy "
        "of the labels. If it is one, leave it out (--ignore), or no label will look wrong."
        for name in rows.columns
        if _matches_labels(rows[name], labels, n_classes)
    ]


def _matches_labels(column: Any, labels: Any, n_classes: int) -> bool:
    """True if each value occurs with one label, and each label with one value."""
    first = column.iloc[:_FIRST_ROWS]  # most columns have too many values already in these
    if column.dtype.kind == "O" and not all(isinstance(value, str) for value in first):
        return False
    if first.nunique() > n_classes or column.nunique() != n_classes:
        return False
    return len(set(zip(column.tolist(), labels.tolist(), strict=True))) == n_classes


def _position(path: Path, columns: list[str], name: str) -> int:
    """The position of the one column with this name."""
    if name not in columns:
        near = get_close_matches(name, columns, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{path} has no column {name!r}; it has {_listed(columns)}.{hint}")
    if columns.count(name) > 1:
        raise ValueError(
            f"{path} has {columns.count(name)} columns named {name!r}. Give each column a "
            "different name."
        )
    return columns.index(name)


def _listed(columns: list[str]) -> str:
    return shortened(", ".join(column or '""' for column in columns), 400)


def _are_row_numbers(column: Any) -> bool:
    values = column.to_numpy()
    return values.dtype.kind == "i" and np.array_equal(values - values[:1], np.arange(len(values)))
