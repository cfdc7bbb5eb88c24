"""Pickles of plain containers and arrays, read by `pickle.Unpickler` without running their code.

The unpickler finds the names of a whitelist only, and these stand for placeholders of this module.
Its time and memory have no bound yet: a slot of the memo may have any number, for which it reserves
room, and hashing tuples of the same tuple twice, nested forty deep, visits 2⁴⁰ leaves. So the
instructions are read first: their number and the numbers of slots are limited, those that arrays do
not need are rejected, and a list, tuple or dictionary cannot be fetched from the memo.

Arrays that Python 2 wrote need `numpy.core.multiarray._reconstruct`, `numpy.ndarray` and
`numpy.dtype`. Python 3 writes bytes at protocol 2 as `_codecs.encode(text, "latin1")`, and NumPy 2
calls its first module `numpy._core.multiarray`.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptd_ext.utils.bounded_files import ContentError, reading, shortened

# A batch of CIFAR-10 has 10,000 labels and names, some 60,000 instructions.
MAX_INSTRUCTIONS = 1_000_000
_NUMBERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "b1")

_PUT = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
_GET = {"GET", "BINGET", "LONG_BINGET"}
# The results of these may be used more than once: they are not containers.
_VALUES = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
_VALUES |= {"STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
_VALUES |= {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "NONE", "EMPTY_TUPLE"}
_VALUES |= {"NEWTRUE", "NEWFALSE", "GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BINPERSID"}
_VALUES |= _GET
_OTHERS = {"MARK", "EMPTY_LIST", "EMPTY_DICT", "LIST", "DICT", "TUPLE", "TUPLE1", "TUPLE2"}
_OTHERS |= {"TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BUILD", "PROTO", "FRAME", "STOP"}


def read_pickle(data: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    """The dictionary that a pickle holds; keys as str, strings of Python 2 as bytes.

    Args:
        data: the pickle.
        path: the file that it comes from, for error messages.
    """
    with reading(path, "a pickle of arrays"):
        content = load_pickle(io.BytesIO(data), len(data))
        if not isinstance(content, dict):
            raise ContentError(f"must hold a dictionary; it holds {type(content).__name__}")
        return {_text(key): getattr(value, "array", value) for key, value in content.items()}


class Placeholder:
    """Stands for an object whose state a pickle sets; by default it has none."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        raise ContentError("is rejected: it sets attributes of an object that has none")


class Function(Placeholder):
    """A function that a pickle may call; it makes at most as many bytes as its arguments hold."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self._make(*arguments)


class _Type(Placeholder):
    """Stands for a numpy.dtype of numbers."""

    __slots__ = ("code",)

    def __init__(self, code: str | bytes, *flags: Any) -> None:
        self.code = _text(code)
        if self.code not in _NUMBERS:
            raise ContentError(
                f"is rejected: it holds an array of type {shortened(self.code)!r}, not of numbers"
            )

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = _text(state[1])
        if order not in ("<", ">", "|", "="):
            raise ContentError(f"is rejected: it holds an array of byte order {shortened(order)!r}")
        self.code = order.replace("|", "") + self.code[-2:]


class _Array(Placeholder):
    """Stands for a numpy.ndarray until its contents are known."""

    __slots__ = ("array",)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, column_major, data = state
        if not isinstance(kind, _Type) or not isinstance(data, bytes):
            raise ContentError("is rejected: it holds an array that is not made of bytes")
        # frombuffer shares the bytes: an array is never larger than the file it comes from.
        flat = np.frombuffer(data, np.dtype(kind.code))
        self.array = flat.reshape(shape, order="F" if column_major else "C")


def _text(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        return value.decode("latin-1") if isinstance(value, bytes) else value
    raise ContentError(f"is rejected: it has a {type(value).__name__} instead of a string")


_ARRAY = Function(lambda *_: _Array())
ARRAYS: Mapping[str, Function] = {
    "numpy.core.multiarray._reconstruct": _ARRAY,
    "numpy._core.multiarray._reconstruct": _ARRAY,
    "numpy.ndarray": _ARRAY,
    "numpy.dtype": Function(_Type),
}


def load_pickle(
    stream: io.BytesIO,
    size: int,
    names: Mapping[str, Any] = ARRAYS,
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the contents of the pickle at the stream's position, and move the stream past it.

    Args:
        stream: the stream that holds the pickle.
        size: maximum number of bytes that the pickle may encode.
        names: the globals that the pickle may name. Their results have a method `__setstate__`,
            which gets the state that the pickle sets.
        persistent: returns the objects that the pickle keeps elsewhere, by their ids.
    """
    start = stream.tell()
    _check_instructions(stream, persistent is not None)
    end = stream.tell()
    stream.seek(start)
    content = _Unpickler(stream, size, names, persistent).load()
    stream.seek(end)
    return content


def _check_instructions(stream: io.BytesIO, persistent: bool) -> None:
    known = (_VALUES | _OTHERS | _PUT) - (set() if persistent else {"BINPERSID"})
    is_value: dict[int, bool] = {}  # by the number of a slot
    previous = ""
    for count, (instruction, argument, _) in enumerate(pickletools.genops(stream)):
        name = instruction.name
        if name not in known:
            raise ContentError(f"is rejected: it has the instruction {name}, which no array needs")
        if name in _PUT:
            slot = len(is_value) if argument is None else int(argument)
            if not 0 <= slot <= MAX_INSTRUCTIONS:
                raise ContentError(f"is rejected: it has a memo of {slot:,} slots")
            is_value[slot] = previous in _VALUES
        elif name in _GET and not is_value.get(int(argument or 0)):
            raise ContentError("is rejected: it uses a container twice")
        if count > MAX_INSTRUCTIONS:
            raise ContentError(f"is rejected: it has more than {MAX_INSTRUCTIONS:,} instructions")
        previous = name


class _Unpickler(pickle.Unpickler):
    """Finds the names of a whitelist; strings of Python 2 become bytes."""

    def __init__(
        self,
        stream: io.BytesIO,
        size: int,
        names: Mapping[str, Any],
        persistent: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(stream, encoding="bytes")
        self._left, self._persistent = size, persistent
        self._names = {**names, "_codecs.encode": Function(self._encode)}

    def find_class(self, module: str, name: str) -> Any:
        wanted = f"{module}.{name}"
        if wanted not in self._names:
            raise ContentError(
                f"is rejected: it asks for {shortened(wanted)}, which no array of numbers needs"
            )
        return self._names[wanted]

    def persistent_load(self, saved: Any) -> Any:
        assert self._persistent is not None  # the instructions are checked for it
        return self._persistent(saved)

    def _encode(self, text: Any, encoding: str | bytes) -> bytes:
        if _text(encoding) != "latin1" or not isinstance(text, str):
            raise ContentError(f"is rejected: it encodes text as {shortened(_text(encoding))!r}")
        self._left -= len(text)
        if self._left < 0:
            raise ContentError("is rejected: it makes more bytes than it has")
        return text.encode("latin-1")
