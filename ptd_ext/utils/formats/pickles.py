"""Reads pickles of plain containers and arrays without running code from them.

A pickle is a program for a machine with a stack and a memo. `pickletools.genops` decodes its
instructions; the machine here knows those that numbers, texts, lists, tuples, dictionaries and
arrays need, and the names that a table allows. Three rules bound its work: the number of
instructions is limited; calls may not allocate more bytes than the pickle has; and a container that
holds others may be used only once, because tuples of the same tuple twice, nested forty deep, have
2⁴⁰ leaves.

Arrays that Python 2 wrote need `numpy.core.multiarray._reconstruct`, `numpy.ndarray` and
`numpy.dtype`. Python 3 writes bytes at protocol 2 as `_codecs.encode(text, "latin1")`, and NumPy 2
calls its first module `numpy._core.multiarray`.
"""

from __future__ import annotations

import io
import os
import pickletools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptd_ext.utils.bounded_files import ContentError, reading, shortened

__all__ = ["ARRAYS", "Build", "load_pickle", "read_pickle"]

# A batch of CIFAR-10 has 10,000 labels and names, some 60,000 instructions.
MAX_INSTRUCTIONS = 1_000_000
_NUMBERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "b1")
_MARK = object()


def read_pickle(data: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    """The dictionary that a pickle holds; keys as str, strings of Python 2 as bytes.

    Args:
        data: The pickle.
        path: The file it came from, for errors.
    """
    with reading(path, "a pickle of arrays"):
        content = load_pickle(io.BytesIO(data), len(data))
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a dictionary; it holds {type(content).__name__}.")
    return {_text(key): getattr(value, "array", value) for key, value in content.items()}


class Build:
    """A function that a pickle may call; it makes at most as many bytes as its arguments hold."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make


class _Type:
    """Stands for a numpy.dtype of numbers."""

    __slots__ = ("code",)

    def __init__(self, code: str | bytes, *flags: Any) -> None:
        self.code = _text(code)
        if self.code not in _NUMBERS:
            kind = shortened(self.code)
            raise ContentError(
                f"is rejected: it holds an array of type {kind!r}, which are not numbers"
            )

    def build(self, state: tuple[Any, ...]) -> None:
        order = _text(state[1])
        if order not in ("<", ">", "|", "="):
            raise ContentError(f"is rejected: it holds an array of byte order {shortened(order)!r}")
        self.code = order.replace("|", "") + self.code[-2:]


class _Array:
    """Stands for a numpy.ndarray until its contents are known."""

    __slots__ = ("array",)

    def build(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, column_major, data = state
        if not isinstance(kind, _Type) or not isinstance(data, bytes):
            raise ContentError("is rejected: it holds an array that is not made of bytes")
        # frombuffer shares the bytes: an array is never larger than the file it came from.
        flat = np.frombuffer(data, np.dtype(kind.code))
        self.array = flat.reshape(shape, order="F" if column_major else "C")


def _encode(text: str, encoding: str | bytes) -> bytes:
    if _text(encoding) != "latin1" or not isinstance(text, str):
        raise ContentError(f"is rejected: it encodes text as {shortened(_text(encoding))!r}")
    return text.encode("latin-1")


def _text(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        return value.decode("latin-1") if isinstance(value, bytes) else value
    raise ContentError(f"is rejected: it has a {type(value).__name__} where a text must be")


_ARRAY = Build(lambda *_: _Array())
ARRAYS: Mapping[str, Build] = {
    "numpy.core.multiarray._reconstruct": _ARRAY,
    "numpy._core.multiarray._reconstruct": _ARRAY,
    "numpy.ndarray": _ARRAY,
    "numpy.dtype": Build(_Type),
    "_codecs.encode": Build(_encode),
}


def load_pickle(
    stream: io.BytesIO,
    size: int,
    names: Mapping[str, Build] = ARRAYS,
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the contents of the pickle at the stream's position, and move the stream past it.

    Args:
        stream: The stream that holds the pickle.
        size: The most bytes that all calls together may allocate.
        names: The globals that the pickle may name. Results of calls may have a method `build`,
            which gets the state that the pickle sets.
        persistent: Gives the objects that the pickle keeps elsewhere, by their ids.
    """
    machine = _Machine(size, names, persistent)
    for count, (instruction, argument, _) in enumerate(pickletools.genops(stream)):
        if count + machine.work > MAX_INSTRUCTIONS:
            raise ContentError(f"is rejected: it has more than {MAX_INSTRUCTIONS:,} instructions")
        machine.step(instruction.name, argument)
    return machine.stack.pop()


class _Machine:
    """The stack and the memo."""

    def __init__(
        self, size: int, names: Mapping[str, Build], persistent: Callable[[Any], Any] | None
    ) -> None:
        self.stack: list[Any] = []
        self.work = 0
        self._memo: dict[int, Any] = {}
        self._shared: set[int] = set()
        self._size = size
        self._names = names
        self._persistent = persistent

    def step(self, name: str, argument: Any) -> None:
        """Run one instruction."""
        stack = self.stack
        if name in _VALUES:
            stack.append(_VALUES[name](argument))
        elif name in _CONTAINERS:
            stack.append(_CONTAINERS[name](self._marked()))
        elif name in _LAST:
            count = _LAST[name]
            items = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            stack.append(tuple(items))
        elif name in ("APPEND", "APPENDS"):
            items = self._marked() if name == "APPENDS" else [stack.pop()]
            self._top(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self._marked() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            self._top(dict).update(_pairs(items))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._remembered(argument))
        elif name == "GLOBAL":
            stack.append(self._named(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            attribute, module = _text(stack.pop()), _text(stack.pop())
            stack.append(self._named(module, attribute))
        elif name in ("REDUCE", "NEWOBJ"):
            self._call()
        elif name == "BUILD":
            state = stack.pop()
            self._set_state(state)
        elif name == "BINPERSID" and self._persistent:
            stack.append(self._persistent(stack.pop()))
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise ContentError(f"is rejected: it has the instruction {name}, which no array needs")

    def _marked(self) -> list[Any]:
        """Pop and return everything above the last mark, and the mark."""
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _top(self, kind: type) -> Any:
        top = self.stack[-1]
        if not isinstance(top, kind) or id(top) in self._shared:
            raise ContentError(f"is rejected: it adds to a {type(top).__name__} that is complete")
        return top

    def _remembered(self, index: int) -> Any:
        value = self._memo[index]
        if isinstance(value, (list, tuple, dict)):
            items = value.values() if isinstance(value, dict) else value
            # Each entry that is looked at counts as an instruction.
            self.work += len(items)
            if any(isinstance(item, (list, tuple, dict)) for item in items):
                raise ContentError("is rejected: it uses a container of containers twice")
            self._shared.add(id(value))
        return value

    def _named(self, module: str, name: str) -> Build:
        if (wanted := f"{module}.{name}") not in self._names:
            raise ContentError(
                f"is rejected: it asks for {shortened(wanted)}, which no array of numbers needs"
            )
        return self._names[wanted]

    def _call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Build) or not isinstance(arguments, tuple):
            raise ContentError("is rejected: it calls something that is no function")
        self._size -= sum(len(a) for a in arguments if isinstance(a, (str, bytes)))
        if self._size < 0:
            raise ContentError("is rejected: it makes more bytes than it has")
        self.stack.append(function.make(*arguments))

    def _set_state(self, state: Any) -> None:
        build = getattr(self.stack[-1], "build", None)
        if build is None:
            raise ContentError("is rejected: it sets attributes of something that has none")
        build(state)


def _pairs(items: list[Any]) -> dict[Any, Any]:
    keys = items[::2]
    if len(items) % 2 or not all(isinstance(key, (str, bytes, int)) for key in keys):
        raise ContentError("is rejected: it has a dictionary whose keys are no texts")
    return dict(zip(keys, items[1::2], strict=True))


def _bytes(text: str) -> bytes:
    """Convert a Python 2 string, which genops gives as text with one character for each byte."""
    return text.encode("latin-1")


def _itself(value: Any) -> Any:
    return value


# Instructions that put a value made from their argument onto the stack.
_VALUES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"), _itself),
    **dict.fromkeys(("FLOAT", "BINFLOAT", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"), _itself),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _itself),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _bytes),
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "MARK": lambda _: _MARK,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "EMPTY_DICT": lambda _: {},
}
# Instructions that make one value from everything above the mark.
_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {"LIST": list, "TUPLE": tuple, "DICT": _pairs}
_LAST = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
