"""Reading pickles of plain containers and NumPy arrays without running what they ask for.

A pickle is a program: it names functions of any module and calls them. Here the four names that
arrays need stand for functions of this file, which build an array from bytes and nothing else;
every other name is refused.

Arrays that Python 2 wrote need `numpy.core.multiarray._reconstruct`, `numpy.ndarray` and
`numpy.dtype`. Python 3 writes bytes at protocol 2 as `_codecs.encode(text, "latin1")`, and NumPy 2
calls its first module `numpy._core.multiarray`.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read_pickle"]

_NUMBERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "b1")


def read_pickle(data: bytes, path: Path | str) -> dict[str, Any]:
    """The dictionary that a pickle holds; keys as str, strings of Python 2 as bytes.

    Args:
        data: The pickle.
        path: Where it came from, for errors.
    """
    try:
        content = _Reader(io.BytesIO(data), encoding="bytes").load()
    except _RefusedError as error:
        raise ValueError(f"{path} is refused: {error}.") from None
    # A damaged pickle raises whatever the damage makes the reader stumble over.
    except Exception as error:
        raise ValueError(f"{path} is cut off or damaged: {error}.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a dictionary; it holds {type(content).__name__}.")
    return {_text(key): getattr(value, "array", value) for key, value in content.items()}


class _RefusedError(pickle.UnpicklingError):
    """The pickle asks for something that no array needs."""


class _Call:
    """A function for the reader to call. Unlike a function it has no attributes to be set."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise _RefusedError("it sets attributes of a function")


class _Type:
    """Stands for a numpy.dtype of numbers."""

    __slots__ = ("code",)

    def __init__(self, code: str | bytes, *flags: Any) -> None:
        self.code = _text(code)
        if self.code not in _NUMBERS:
            raise _RefusedError(f"it holds an array of type {self.code!r}, which are not numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = _text(state[1])
        if order not in ("<", ">", "|", "="):
            raise _RefusedError(f"it holds an array of byte order {order!r}")
        self.code = order.replace("|", "") + self.code[-2:]


class _Array:
    """Stands for a numpy.ndarray until its contents are known."""

    __slots__ = ("array",)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, column_major, data = state
        if not isinstance(kind, _Type) or not isinstance(data, bytes):
            raise _RefusedError("it holds an array that is not made of bytes")
        # frombuffer shares the bytes: an array is never larger than the file it came from.
        flat = np.frombuffer(data, np.dtype(kind.code))
        self.array = flat.reshape(shape, order="F" if column_major else "C")


def _encode(text: str, encoding: str | bytes) -> bytes:
    if _text(encoding) != "latin1":
        raise _RefusedError(f"it encodes text as {encoding!r}")
    return str(text).encode("latin-1")


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


_ARRAY = _Call(lambda *_: _Array())
_ALLOWED = {
    "numpy.core.multiarray._reconstruct": _ARRAY,
    "numpy._core.multiarray._reconstruct": _ARRAY,
    "numpy.ndarray": _ARRAY,
    "numpy.dtype": _Call(_Type),
    "_codecs.encode": _Call(_encode),
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        wanted = f"{module}.{name}"
        if wanted not in _ALLOWED:
            raise _RefusedError(f"it asks for {wanted}, which no array of numbers needs")
        return _ALLOWED[wanted]
