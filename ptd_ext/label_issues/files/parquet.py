"""Tables in .parquet files, read within a bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptd_ext.train.data.formats.zips import MAX_INFLATED, MAX_RATIO
from ptd_ext.utils.bounded_files import ContentError

__all__ = ["read_parquet"]

_CELL = 8  # bytes of a number, or of the place of a text


def read_parquet(pandas: Any, path: Path) -> tuple[Any, list[str]]:
    """The table, and the names of its columns."""
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
    frame = pandas.read_parquet(path)
    columns = [str(name) for name in frame.columns]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise ContentError(f"must have columns of different names; {twice!r} comes twice")
    return frame, columns
