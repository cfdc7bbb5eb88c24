"""Reading files that may be damaged or malicious within a stated amount of memory.

Every reader of the package goes through these functions. They raise a ValueError, a sentence with
the file's name, before more than the limit is held; a size that a file only declares allocates
nothing. Readers of a format work within `reading`, which gives whatever a library raises over
damaged contents the same form.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

__all__ = [
    "ContentError",
    "check_size",
    "read_bytes",
    "read_json",
    "read_lines",
    "read_stream",
    "reading",
    "reason",
    "shortened",
]

# This is more than any of the data sets holds in one file.
MAX_BYTES = 1 << 30
_MAX_TEXT = 200
_PIECE = 1 << 20


class ContentError(Exception):
    """The contents must not be used; the text is a sentence whose subject is the file."""


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn what is raised over the contents of a file into a ValueError with a sentence.

    A file that is not there or not allowed to be read, and a lack of memory, stay what they are.

    Args:
        path: Of the file.
        kind: What the file should be: "a .npz file".
    """
    try:
        yield
    except ContentError as error:
        raise ValueError(f"{path} {error}.") from None
    except (FileNotFoundError, PermissionError, IsADirectoryError, MemoryError, ImportError):
        raise
    except Exception as error:
        # Sentences of this module name a file already.
        if type(error) is ValueError and str(error).startswith(str(path)):
            raise
        raise ValueError(
            f"{path} is cut off, damaged or not {kind}: {reason(error)}. Mend or replace it."
        ) from error


def check_size(size: int, path: str | os.PathLike[str], limit: int = MAX_BYTES) -> None:
    """Raise where a file declares more than the limit, before anything is allocated for it."""
    if size > limit:
        raise ValueError(
            f"{path} declares {size:,} bytes, more than the {limit:,} that such a file may hold."
        )


def read_bytes(path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """The contents of a file of at most `limit` bytes."""
    path = Path(path)
    size = path.stat().st_size
    check_size(size, path, limit)
    with path.open("rb") as file:
        # Asking for `limit` bytes would allocate them, whatever the file holds.
        content = file.read(size)
        if file.read(1):
            raise ValueError(f"{path} must not grow while it is read; it did.")
    return content


def read_json(path: str | os.PathLike[str], limit: int = 1 << 20) -> Any:
    """The document of a JSON file of at most `limit` bytes."""
    content = read_bytes(path, limit)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged, it is not JSON ({reason(error)}).") from None


def read_lines(
    path: str | os.PathLike[str], limit: int = MAX_BYTES, line_limit: int = 1 << 16
) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of every line; at most `line_limit` of them are held at once."""
    path = Path(path)
    check_size(path.stat().st_size, path, limit)
    with path.open("rb") as file:
        number = 0
        while line := file.readline(line_limit + 1):
            number += 1
            if len(line) > line_limit:
                raise ValueError(
                    f"{path}, line {number}, must have at most {line_limit:,} bytes; it has more."
                )
            yield number, line


def read_stream(stream: BinaryIO | Any, size: int) -> bytearray:
    """Up to `size` bytes of a stream, in pieces: a size that lies costs what the stream holds."""
    data = bytearray()
    while len(data) < size and (piece := stream.read(min(_PIECE, size - len(data)))):
        data += piece
    return data


def reason(error: BaseException) -> str:
    """The first line of what a library's exception says, without its full stop."""
    lines = str(error).strip().splitlines()
    return shortened(lines[0].rstrip(". ") if lines else type(error).__name__, _MAX_TEXT)


def shortened(text: object, limit: int = 80) -> str:
    """A text that came from a file, as a sentence can quote it."""
    text = text if isinstance(text, str) else repr(text)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: limit + 1])
    return text if len(text) <= limit else f"{text[:limit]}…"
