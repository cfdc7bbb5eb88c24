"""Finds the files of a data set, and names the places where missing ones were looked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


class MissingFileError(FileNotFoundError):
    """A file of a data set is in none of the folders where it was looked for."""

    def __init__(self, data_set: str, wanted: str, places: Iterable[Path], home: str) -> None:
        where = ", ".join(str(place) for place in places) or "no folder, as none was given"
        super().__init__(
            f"{data_set} needs {wanted}; looked in {where}. The official files are at {home}."
        )


def folders(root: Path | str | None, below: Sequence[str]) -> list[Path]:
    """The root and those folders below it, whether or not they exist."""
    if root is None:
        return []
    return [Path(root), *(Path(root) / name for name in below)]


def find(names: Sequence[str], places: Iterable[Path]) -> Path | None:
    """The first file with one of the names, folder by folder."""
    for place in places:
        for name in names:
            if (place / name).is_file():
                return place / name
    return None


def require(data_set: str, name: str, places: Sequence[Path], home: str) -> Path:
    """The first file of this name, or MissingFileError."""
    path = find([name], places)
    if path is None:
        raise MissingFileError(data_set, name, places, home)
    return path
