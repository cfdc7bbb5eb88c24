"""Tables in .parquet files, read within a bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.utils.atomic_files import atomic_file
from ptd_ext.utils.bounded_files import ContentError
from ptd_ext.utils.formats.zips import MAX_INFLATED, MAX_RATIO

_CELL = 8  # bytes of a number, or of a pointer to a string


class Parquet:
    """A table.

    Attributes:
        frame: the data frame.
        columns: the names of the columns.
    """

    def __init__(self, pandas: Any, path: Path) -> None:
        try:
            from pyarrow.parquet import read_metadata
        except ImportError:
            raise ImportError("Parquet files need pyarrow: pip install pyarrow.") from None
        about = read_metadata(path)
        groups = (about.row_group(number).total_byte_size for number in range(about.num_row_groups))
        # Equal values take next to nothing in the file, and a cell each in memory.
        needed = max(sum(groups), _CELL * about.num_rows * about.num_columns)
        limit = max(MAX_INFLATED, MAX_RATIO * path.stat().st_size)
        if needed > limit:
            raise ContentError(f"declares {needed:,} bytes, more than the {limit:,} allowed")
        self._pandas, self.frame = pandas, pandas.read_parquet(path)
        self.columns = [str(name) for name in self.frame.columns]
        twice = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if twice is not None:
            raise ContentError(f"must have columns of different names; {twice!r} comes twice")

    def labels(self, position: int) -> Any:
        """The column of the labels."""
        return self.frame.iloc[:, position]

    def write(
        self, copy: Path, position: int, keep: NDArray[np.bool_], changes: dict[int, Any]
    ) -> None:
        """Copy the rows to keep with new labels by row; columns keep their types."""
        column = self.labels(position).copy()
        for row, label in changes.items():
            column.iloc[row] = label
        frame = self.frame.copy(deep=False)
        frame.isetitem(position, column)
        # Row numbers are not a column of the file, even if rows are dropped.
        plain = isinstance(frame.index, self._pandas.RangeIndex)
        with atomic_file(copy) as temporary:
            frame[keep].to_parquet(temporary, index=False if plain else None)
