"""The words in a Parquet file that has one column of text.

The package with GloVe's vectors keeps its words like that, and this is all of the format that they
need, without a package of a hundred megabytes to read it: pages of version 1, uncompressed or
Snappy, with values plain or by dictionary. Anything else gets a sentence.

A file ends with its description, the length of that in 4 bytes, and `PAR1`. Descriptions and the
headers of pages are in Thrift's compact protocol, in which a struct is fields by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptd_ext.utils.bounded_files import read_bytes, reading

__all__ = ["read_words"]

_TEXT = 6
_UNCOMPRESSED, _SNAPPY = 0, 1
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _DICTIONARIES = 0, (2, 8)
# The 400,000 words of the package have 3 MB.
_MAX_FILE, _MAX_WORDS, _MAX_TEXT = 1 << 26, 4_000_000, 1 << 26


def read_words(path: Path) -> list[str]:
    """Every row's text."""
    words, text = [], 0
    with reading(path, "a Parquet file of words"):
        for word in _rows(read_bytes(path, _MAX_FILE)):
            text += len(word)
            # A word in a dictionary costs its rows no bytes of the file.
            if len(words) == _MAX_WORDS or text > _MAX_TEXT:
                raise ValueError(f"it has more than {_MAX_WORDS:,} words or {_MAX_TEXT:,} letters")
            words.append(word.decode("utf-8"))
    return words


def _rows(data: bytes) -> Iterator[bytes]:
    if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise ValueError("it must begin and end with PAR1")
    about = _Thrift(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little")).struct()
    for group in about[4]:
        if len(group[1]) != 1 or group[1][0][3][1] != _TEXT:
            raise ValueError("it must have one column, of text")
        column = group[1][0][3]
        if column[4] not in (_UNCOMPRESSED, _SNAPPY):
            raise ValueError("it must be uncompressed or compressed by Snappy")
        yield from _column(data, column)


def _column(data: bytes, about: dict[int, Any]) -> Iterator[bytes]:
    place = min(about.get(11, about[9]), about[9])
    dictionary: list[bytes] = []
    left = about[5]
    while left > 0:
        thrift = _Thrift(data, place)
        header = thrift.struct()
        if header[3] < 0:
            raise ValueError("a page has a negative size")
        place = thrift.place + header[3]
        page = data[thrift.place : place]
        if about[4] == _SNAPPY:
            page = _snappy(page, header[2])
        if header[1] == _DICTIONARY_PAGE:
            dictionary = list(_plain(page, 0, header[7][1]))
            continue
        if header[1] != _DATA_PAGE:
            raise ValueError(f"its pages must be of version 1; one is of type {header[1]}")
        count, encoding = header[5][1], header[5][2]
        if not 0 < count <= min(left, _MAX_WORDS):
            raise ValueError(f"a page has {count:,} rows of the {left:,} that are left")
        # First which rows have a value: one bit each, by the bytes that their length counts.
        start = 4 + int.from_bytes(page[:4], "little")
        if sum(_hybrid(page[:start], 4, 1, count)) != count:
            raise ValueError("every row must have a value")
        if encoding == _PLAIN:
            yield from _plain(page, start, count)
        elif encoding in _DICTIONARIES:
            for index in _hybrid(page, start + 1, page[start], count):
                yield dictionary[index]
        else:
            raise ValueError(f"its values must be plain or by dictionary; got encoding {encoding}")
        left -= count


def _plain(page: bytes, place: int, count: int) -> Iterator[bytes]:
    """Values after one another, each behind its length."""
    for _ in range(count):
        start = place + 4
        place = start + int.from_bytes(page[place:start], "little")
        if place > len(page):
            raise ValueError("it is cut off")
        yield page[start:place]


def _hybrid(page: bytes, place: int, bits: int, count: int) -> Iterator[int]:
    """Numbers of so many bits, in runs of one number and runs of groups of eight."""
    thrift, size = _Thrift(page, place), (bits + 7) // 8
    while count > 0:
        head = thrift.varint()
        place = thrift.place
        if head & 1:
            thrift.place += (head >> 1) * bits
            run = min(count, (head >> 1) * 8)
            mask = (1 << bits) - 1
            # By groups, as shifting one long number again and again would take squared time.
            for first in range(0, run, 8):
                start = place + first // 8 * bits
                group = int.from_bytes(page[start : start + bits], "little")
                for k in range(min(8, run - first)):
                    yield (group >> (k * bits)) & mask
        else:
            run = min(count, head >> 1)
            thrift.place += size
            value = int.from_bytes(page[place : thrift.place], "little")
            for _ in range(run):
                yield value
        if run == 0:
            raise ValueError("it has an empty run")
        count -= run


def _snappy(data: bytes, size: int) -> bytes:
    """Literals and copies of what was already written, behind the size of the whole."""
    thrift = _Thrift(data, 0)
    if thrift.varint() != size:
        raise ValueError("a page has another size than its header says")
    if not 0 <= size <= _MAX_FILE:
        raise ValueError(f"a page has {size:,} bytes")
    place, out = thrift.place, bytearray()
    while place < len(data):
        tag = data[place]
        kind, length = tag & 3, (tag >> 2) + 1
        place += 1
        if kind == 0:
            if length > 60:
                extra = length - 60
                length = int.from_bytes(data[place : place + extra], "little") + 1
                place += extra
            out += data[place : place + length]
            place += length
            continue
        if kind == 1:
            length, offset = 4 + (tag >> 2 & 7), (tag >> 5) << 8 | data[place]
            place += 1
        else:
            extra = 2 if kind == 2 else 4
            offset = int.from_bytes(data[place : place + extra], "little")
            place += extra
        start = len(out) - offset
        if offset == 0 or start < 0 or len(out) + length > size:
            raise ValueError("a page is damaged")
        # A copy may reach into itself: then what lies between repeats.
        piece = out[start : start + length]
        out += (piece * (length // len(piece) + 1))[:length]
    if len(out) != size:
        raise ValueError("a page is cut off")
    return bytes(out)


class _Thrift:
    """Values of the compact protocol from a place on, which moves along."""

    def __init__(self, data: bytes, place: int) -> None:
        if place < 0:
            raise ValueError("it is cut off")
        self.data = data
        self.place = place

    def varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.data[self.place]
            self.place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise ValueError("a number has more than 64 bits")

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15)
        return fields

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _signed(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (7, 8):
            length = 8 if kind == 7 else self.varint()
            self.place += length
            if self.place > len(self.data):
                raise ValueError("it is cut off")
            return self.data[self.place - length : self.place]
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            # In a list every value has a byte at least, truths too.
            kind = 3 if head & 15 in (1, 2) else head & 15
            return [self._value(kind) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise ValueError(f"it has a field of type {kind}")
