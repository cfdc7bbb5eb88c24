"""CSV files that read back equal: every string survives Python's csv module and pandas.

Python's csv writer leaves a carriage return unquoted where lines end with a line feed, and readers
take it for the end of a row. Here each cell with a separator, quote or line break is quoted, as
RFC 4180 demands, and each that begins with a byte order mark, which readers drop where a file
begins. Strings that do not read back are rejected: those with a NUL, which Python before 3.11 does
not read, and with surrogates that do not stand for bytes of a file name. Read such a table with
``dtype=str, keep_default_na=False`` in pandas for cells such as "NA" and "007".
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from ptd_ext.utils.atomic_files import atomic_file
from ptd_ext.utils.bounded_files import shortened

_BYTES = "surrogateescape"  # how Python reads names of files that are not UTF-8
_BYTE_ORDER_MARK = "\ufeff"


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
        open(temporary, "w", newline="", encoding="utf-8", errors=_BYTES) as file,
    ):
        for number, cells in enumerate(chain([header], rows)):
            try:
                file.write(csv_line(cells, separator))
            except ValueError as error:
                row = f"row {number - 1}" if number else "the header"
                raise ValueError(f"{path} cannot be written: in {row}, {error}") from None


def csv_line(cells: Iterable[Any], separator: str = ",") -> str:
    """Join the cells to a line; None is an empty cell, and floats keep every digit."""
    strings = ["" if cell is None else str(cell) for cell in cells]
    if len(strings) == 1 and not strings[0].strip():  # readers skip blank lines
        return f'"{strings[0]}"\n'
    return separator.join(_quoted(text, separator) for text in strings) + "\n"


def check_csv_string(text: str) -> None:
    """Raise ValueError for a string that does not read back from a CSV file."""
    try:
        # Surrogates stand for bytes of a file name, unless these bytes make a character.
        same = text.encode("utf-8", _BYTES).decode("utf-8", _BYTES) == text
    except UnicodeEncodeError:
        same = False
    if not same:
        raise ValueError(f"{shortened(repr(text))} has surrogates, which are not characters.")
    if "\0" in text:
        raise ValueError(f"{shortened(repr(text))} has a NUL character, which some readers reject.")


def _quoted(text: str, separator: str) -> str:
    check_csv_string(text)
    if text[:1] == _BYTE_ORDER_MARK or any(
        special in text for special in (separator, '"', "\r", "\n")
    ):
        return '"' + text.replace('"', '""') + '"'
    return text
