"""Tables in .csv and .tsv files: read for learning, and copied cell by cell."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.utils.bounded_files import ContentError
from ptd_ext.utils.csv_files import write_csv

SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PIECE = 1 << 20  # bytes read at a time
_MAX_COLUMNS = 100_000  # each takes some kilobytes and a good deal of time in pandas


class Delimited:
    """A table whose first line holds the names of the columns.

    Attributes:
        frame: the data frame.
        columns: the names as they are in the file. pandas renames the second of two equal names,
            which could hide a copy of the labels.
    """

    def __init__(self, pandas: Any, path: Path) -> None:
        self._pandas, self._path = pandas, path
        self._separator = separator = SEPARATORS[path.suffix.lower()]
        with path.open("rb") as file:
            if any(b"\0" in piece for piece in iter(partial(file.read, _PIECE), b"")):
                raise ContentError("must be text; it has NUL characters. Save it as UTF-8")
        try:
            with open(path, newline="", encoding="utf-8-sig") as file:
                lines = csv.reader(file, delimiter=separator)
                self.columns = next((cells for cells in lines if cells), [])
        except csv.Error as error:
            raise ContentError(f"must begin with a line of names: {error}") from None
        if len(self.columns) > _MAX_COLUMNS:
            raise ContentError(f"may have {_MAX_COLUMNS:,} columns; it has {len(self.columns):,}")
        # In pieces, as pandas reads by default, a column could come out as numbers and strings.
        frame = pandas.read_csv(path, sep=separator, low_memory=False)
        if not isinstance(frame.index, pandas.RangeIndex) or frame.shape[1] != len(self.columns):
            raise ContentError("must have as many cells in a row as names in its first line")
        self.frame = frame

    def labels(self, position: int) -> Any:
        """The labels as they are in the file, such as 007 or TRUE; integers as numbers.

        Different spellings of a number, such as 100 and 1e2, become the most frequent of them.
        """
        parsed = self.frame.iloc[:, position]
        written = self._strings(usecols=[position]).iloc[:, 0]
        missing = np.flatnonzero(parsed.isna())
        if len(missing):
            row = int(missing[0])
            raise ValueError(
                f"{self._path} must hold a label in every row; {str(written.iloc[row])!r} in row "
                f"{row} stands for a missing one. Leave rows without a label out, or give them a "
                "class of their own."
            )
        if parsed.dtype.kind == "f":
            if not (parsed % 1 == 0).all():  # rejected later, as labels that are not classes
                return parsed
            return written.groupby(parsed).transform(lambda same: same.mode().iloc[0])
        if parsed.dtype.kind in "iu" and (written.str.strip() == parsed.astype(str)).all():
            return parsed
        return written

    def write(
        self, copy: Path, position: int, keep: NDArray[np.bool_], changes: dict[int, Any]
    ) -> None:
        """Copy the rows to keep; cells stay as they are, except for labels that change.

        Args:
            copy: the file to write.
            position: the position of the column of the labels.
            keep: true for the rows to keep, [N].
            changes: new labels by row.
        """
        cells = self._strings(header=None)
        for row, label in changes.items():
            cells.iat[row + 1, position] = str(label)
        header, *rows = cells[np.concatenate([[True], keep])].itertuples(index=False, name=None)
        write_csv(copy, header, rows, separator=self._separator)

    def _strings(self, **options: Any) -> Any:
        return self._pandas.read_csv(
            self._path, sep=self._separator, dtype=str, na_filter=False, low_memory=False, **options
        )
