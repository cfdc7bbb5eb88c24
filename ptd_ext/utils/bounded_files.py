"""Reads files that may be damaged or malicious within a stated amount of memory.

Every reader of the package uses these functions. They raise a ValueError that names the file before
they hold more than the limit; a size that a file only declares allocates nothing. Readers of a
format work within `reading`, which turns any error of a library over damaged contents into such a
ValueError.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

MAX_BYTES = 1 << 30  # more than a file of any data set
_MAX_TEXT = 200
_PIECE = 1 << 20


class ContentError(Exception):
    """The contents must not be used; the message has the file as its subject."""


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn errors over the contents of a file into a ValueError that names the file.

    Errors over missing files, permissions, memory and missing packages pass unchanged.

    Args:
        path: path of the file.
        kind: expected kind of file, such as "a .npz file".
    """
    try:
        yield
    except ContentError as error:
        raise ValueError(f"{path} {error}.") from None
    except (FileNotFoundError, PermissionError, IsADirectoryError, MemoryError, ImportError):
        raise
    except Exception as error:
        # Messages of this module name the file already.
        if type(error) is ValueError and str(error).startswith(str(path)):
            raise
        raise ValueError(
            f"{path} is cut off, damaged or not {kind}: {reason(error)}. Repair or replace it."
        ) from error


def check_size(size: int, path: str | os.PathLike[str], limit: int = MAX_BYTES) -> None:
    """Raise ValueError for a file of more than `limit` bytes, before any are allocated."""
    if size > limit:
        raise ValueError(
            f"{path} declares {size:,} bytes, more than the {limit:,} bytes that such a file may "
            "hold."
        )


def machine_memory() -> int:
    """The bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def read_bytes(path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """Return the contents of a file of at most `limit` bytes."""
    path = Path(path)
    size = path.stat().st_size
    check_size(size, path, limit)
    with path.open("rb") as file:
        # Asking for `limit` bytes would allocate them, whatever the file holds.
        content = file.read(size)
        if file.read(1):
            raise ValueError(f"{path} grew while it was read; try again once it is complete.")
    return content


def read_files(paths: Iterable[Path], limit: int, total: int) -> Iterator[tuple[Path, bytes]]:
    """Yield each file with its contents: at most `limit` bytes each and `total` in all."""
    for path in paths:
        content = read_bytes(path, min(limit, total))
        total -= len(content)
        yield path, content


def read_json(path: str | os.PathLike[str], limit: int = 1 << 20) -> Any:
    """Return the document of a JSON file of at most `limit` bytes."""
    content = read_bytes(path, limit)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it is not JSON ({reason(error)}).") from None


def read_lines(
    path: str | os.PathLike[str], limit: int = MAX_BYTES, line_limit: int = 1 << 16
) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of every line, each of at most `line_limit` bytes."""
    path = Path(path)
    check_size(path.stat().st_size, path, limit)
    with path.open("rb") as file:
        number = 0
        while line := file.readline(line_limit + 1):
            number += 1
            if len(line) > line_limit:
                raise ValueError(
                    f"Line {number} of {path} must have at most {line_limit:,} bytes; it has more."
                )
            yield number, line


def read_stream(stream: BinaryIO | Any, size: int) -> bytearray:
    """Read up to `size` bytes in pieces, so that a false size costs only what the stream holds."""
    data = bytearray()
    while len(data) < size and (piece := stream.read(min(_PIECE, size - len(data)))):
        data += piece
    return data


def reason(error: BaseException) -> str:
    """Return the first line of an exception's message, without its full stop."""
    lines = str(error).strip().splitlines()
    return shortened(lines[0].rstrip(". ") if lines else type(error).__name__, _MAX_TEXT)


def shortened(text: object, limit: int = 80) -> str:
    """Return a value from a file as an error message can quote it."""
    text = text if isinstance(text, str) else repr(text)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: limit + 1])
    return text if len(text) <= limit else f"{text[:limit]}…"
