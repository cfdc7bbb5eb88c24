"""Launches and the bytes that kernels moved, as the emulator records them."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from .build import load_runtime


@dataclass
class Traffic:
    """Bytes of one array that a launch reads, or writes.

    `accessed` adds up what threads ask for. The others count sectors of 32 bytes: `requested` those
    of each access of a warp, `block` the distinct ones of each block, as if its cache held them,
    `near` of these the ones that no block shortly before it in the grid touches, as if a cache
    held what is touched at about the same time, and `launch` the distinct ones of the launch.
    """

    array: str
    writes: bool
    accessed: int
    requested: int
    block: int
    near: int
    launch: int


@dataclass
class Launch:
    """A kernel as it is called, with its template arguments, and its sizes."""

    kernel: str
    blocks: int
    threads: int
    shared: int  # bytes, dynamic
    traffic: list[Traffic] = field(default_factory=list)


@functools.cache
def kernel_name(signature: str) -> str:
    """name<arguments> of a demangled function."""
    name = signature.removeprefix("void ").replace("ptd::", "")
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:at]
            break
    # Casts to built-in types have no meaning; one to an enumeration is part of the argument.
    return re.sub(r"\([a-z_ ]+\)(?=-?\d)", "", name)


_recordings: list[list[Launch]] = []


def collect(names: Mapping[str, str] | None = None) -> None:
    """Add what was recorded since the last call to the list of the recording that is going on.

    `names` are other names of arrays.
    """
    runtime = load_runtime()
    runtime.cuda_emulator_take_record.restype = ctypes.c_char_p
    if _recordings:
        _recordings[-1] += _read(runtime.cuda_emulator_take_record().decode(), names or {})


@contextmanager
def recording(*, traffic: bool = True) -> Iterator[list[Launch]]:
    """Launches made inside, in a list that is filled at its end, or after each operator's call.

    With `traffic` they run, and what they move is counted (checked libraries only); without it they
    do not run, and arrays need not be as large as the launcher believes.
    """
    runtime = load_runtime()
    _recordings.append([])
    runtime.cuda_emulator_record(2 if traffic else 1)
    try:
        yield _recordings[-1]
    finally:
        runtime.cuda_emulator_record(0)
        collect()
        _recordings.pop()


def _read(text: str, names: Mapping[str, str]) -> list[Launch]:
    launches: list[Launch] = []
    for line in text.splitlines():
        kind, name, *rest = line.split("\t")
        if kind == "launch":
            launches.append(Launch(kernel_name(name), *map(int, rest)))
        else:
            traffic = Traffic(names.get(name, name), rest[0] == "write", *map(int, rest[1:]))
            launches[-1].traffic.append(traffic)
    return launches
