"""CSV files that read back equal: every string survives Python's csv module and pandas.

Python's csv writer leaves a carriage return unquoted where lines end with a line feed, and readers
take it for the end of a row. Here each cell with a separator, quote or line break is quoted, as
RFC 4180 demands. Read such a table with ``dtype=str, keep_default_na=False`` in pandas for cells
such as "NA" and "007".
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ptd_ext.utils.atomic_files import atomic_file


def write_csv(
    path: str | os.PathLike[str],
    header: Iterable[Any],
    rows: Iterable[Iterable[Any]],
    *,
    separator: str = ",",
) -> None:
    """Write a table atomically, as UTF-8; bytes of file names that are not UTF-8 are kept."""
    with (
        atomic_file(Path(path)) as temporary,
        open(temporary, "w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        file.write(csv_line(header, separator))
        file.writelines(csv_line(row, separator) for row in rows)


def csv_line(cells: Iterable[Any], separator: str = ",") -> str:
    """Join the cells to a line; None is an empty cell, and floats keep every digit."""
    strings = ["" if cell is None else str(cell) for cell in cells]
    if len(strings) == 1 and not strings[0].strip():  # readers skip blank lines
        return f'"{strings[0]}"\n'
    return separator.join(_quoted(text, separator) for text in strings) + "\n"


def _quoted(text: str, separator: str) -> str:
    if any(special in text for special in (separator, '"', "\r", "\n")):
        return '"' + text.replace('"', '""') + '"'
    return text
