"""Numbers as text: Markdown tables and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from ptd_ext.train.reproduce.published import Printed
from ptd_ext.train.reproduce.statistics import Summary

__all__ = ["beside", "csv_text", "duration", "markdown_table", "p_text", "spread"]


def spread(mean: float, std: float | None, digits: int = 2) -> str:
    """A mean with its standard deviation, if there is one."""
    if std is None or math.isnan(std):
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {std:.{digits}f}"


def beside(
    ours: Summary, printed: Printed | None, *, usual: int, best: bool = False, digits: int = 2
) -> str:
    """`ours (published)`: a dash for what is missing, n where it is not the usual one."""
    text = "–"
    if ours.count:
        text = spread(ours.mean, ours.std, digits)
        text = f"**{text}**" if best else text
        text += f" n = {ours.count}" if ours.count != usual else ""
    return f"{text} ({spread(printed.mean, printed.std, digits)})" if printed else text


def p_text(value: float) -> str:
    """A p-value of a table; a dash for what could not be tested."""
    if math.isnan(value):
        return "–"
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def duration(seconds: float) -> str:
    """Seconds in the two largest units that matter."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns line up, so that it can be read as it is."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    rule = ["-" * width for width in widths]
    return "".join(
        "| "
        + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        + " |\n"
        for line in (lines[0], rule, *lines[1:])
    )


def csv_text(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> str:
    """Format rows as CSV; missing values and NaN stay empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _field(value) for name, value in row.items()})
    return text.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.10g}"
    return value
