"""Pickles of arrays are read as pickle reads them, and nothing else is called."""

import os
import pickle

import numpy as np
import pytest

from ptd_ext.utils.formats import pickles
from ptd_ext.utils.formats.pickles import read_pickle

CONTENT = {
    "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "labels": [1, 2, 300, -5, 2**40],
    "names": ["a.png", "ü.png"],
    "mixed": (1, 2.5, None, True, False, b"bytes", {"nested": [()]}),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL))
def test_what_pickle_gives(protocol):
    found = read_pickle(pickle.dumps(CONTENT, protocol), "f")
    assert list(found) == list(CONTENT)
    for name in ("data", "columns"):
        assert found[name].dtype == CONTENT[name].dtype
        assert np.array_equal(found[name], CONTENT[name])
    assert found["labels"] == CONTENT["labels"]
    assert found["names"] == CONTENT["names"]
    assert found["mixed"] == CONTENT["mixed"]


def test_strings_of_python_2_are_bytes():
    found = read_pickle(b"\x80\x02}U\x06labelsU\x01\xffs.", "f")
    assert found == {"labels": b"\xff"}


class Calls:
    def __reduce__(self):
        return os.system, ("true",)


SHARED = [[1]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": Calls()}, r"f is rejected: it asks for \w+\.system"),
        ({"a": np.array(["x"])}, "is rejected: it holds an array of type 'U1'"),
        ({"a": np.array([object], dtype=object)}, "is rejected: it"),
        ({(1, 2): 3}, "f is rejected: it has a tuple instead of a string"),
        ({"a": SHARED, "b": SHARED}, "is rejected: it uses a container twice"),
        ([1, 2], "f must hold a dictionary; it holds list"),
        ({"a": {1, 2}}, "is rejected: it has the instruction EMPTY_SET"),
    ],
)
def test_what_is_rejected(content, message):
    with pytest.raises(ValueError, match=message):
        read_pickle(pickle.dumps(content, 4), "f")


def test_a_container_cannot_be_fetched_from_the_memo():
    numbers = [1, 2]
    with pytest.raises(ValueError, match="is rejected: it uses a container twice"):
        read_pickle(pickle.dumps({"a": numbers, "b": numbers}), "f")
    name = "label"
    assert read_pickle(pickle.dumps({"a": name, "b": name}), "f") == {"a": name, "b": name}


def test_a_slot_of_the_memo_far_away():
    with pytest.raises(ValueError, match="is rejected: it has a memo of 268,435,456 slots"):
        read_pickle(b"\x80\2}r\0\0\0\x10.", "f")


@pytest.mark.parametrize("state", [b"}(U\5_makeK\1ub", b"N}(U\5_makeK\1u\x86b"])
def test_a_placeholder_keeps_its_attributes(state):
    """The second form sets attributes one by one."""
    changed = b"\x80\2cnumpy\nndarray\n" + state + b"."
    with pytest.raises(ValueError, match="it sets attributes of an object that has none"):
        read_pickle(changed, "f")


def test_the_number_of_instructions_is_limited(monkeypatch):
    data = pickle.dumps({"a": list(range(10))}, 2)
    monkeypatch.setattr(pickles, "MAX_INSTRUCTIONS", 50)
    read_pickle(data, "f")
    monkeypatch.setattr(pickles, "MAX_INSTRUCTIONS", 10)
    with pytest.raises(ValueError, match="is rejected: it has more than 10 instructions"):
        read_pickle(data, "f")


@pytest.mark.parametrize("length", [0, 1, 20, -1])
def test_cut_pickles(length):
    data = pickle.dumps(CONTENT)[:length]
    with pytest.raises(ValueError, match=r"^f is cut off, damaged or not a pickle of arrays"):
        read_pickle(data, "f")
