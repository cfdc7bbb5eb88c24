"""The formats of tools that people label with, one entry each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptd_ext.label_issues.review.exchange import argilla, label_studio, tasks
from ptd_ext.label_issues.review.exchange.tasks import Task
from ptd_ext.utils.bounded_files import MAX_BYTES, read_json, reason, shortened

Records = Iterator[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Format:
    """A format to export rows in, and to import decisions from.

    Attributes:
        help: what it is, in a few words.
        suffix: ending of the file, by which CSV and JSON Lines are recognised when they are read.
        write: writes tasks; takes the path, the tasks and the names of the classes.
        is_export: for JSON, whether a document is an export of this tool.
        read: for JSON, the records of decisions in a document, with their places.
    """

    help: str
    suffix: str
    write: Callable[[Path, Sequence[Task], Sequence[str]], None]
    is_export: Callable[[Any], bool] | None = None
    read: Callable[[Any], Records] | None = None


FORMATS = {
    "csv": Format("table with columns to fill in", ".csv", tasks.write_table),
    "jsonl": Format("JSON Lines, an object per row", ".jsonl", tasks.write_lines),
    "label-studio": Format(
        "JSON tasks with predictions, and the labelling config beside them",
        ".json",
        label_studio.write_tasks,
        label_studio.is_export,
        label_studio.read_export,
    ),
    "argilla": Format(
        "JSON list of records with suggestions",
        ".json",
        argilla.write_records,
        argilla.is_export,
        argilla.read_records,
    ),
}


def format_of(name: str, path: Path) -> Format:
    """The format of this name; raises ValueError for an unknown one or another file ending."""
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}; got {name!r}.")
    if path.suffix.lower() != FORMATS[name].suffix:
        raise ValueError(
            f"path must end in {FORMATS[name].suffix} for the format {name}; got {path.name}."
        )
    return FORMATS[name]


def read_export(path: Path) -> Records:
    """The decisions in a JSON file that one of the tools has exported."""
    document = read_json(path, MAX_BYTES)
    for each in FORMATS.values():
        if each.is_export is not None and each.read is not None and each.is_export(document):
            try:
                for where, record in each.read(document):
                    yield f"{where} of {path}", record
            except (KeyError, IndexError, TypeError, AttributeError) as error:
                what = shortened(f"{type(error).__name__}: {reason(error)}")
                raise ValueError(f"{path} is damaged or of another version: {what}.") from None
            return
    known = ", ".join(name for name, each in FORMATS.items() if each.read is not None)
    raise ValueError(f"{path} must be an export of one of these tools: {known}.")
