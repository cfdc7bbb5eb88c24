"""Findings are kept without loss; damaged and forged files are rejected."""

import dataclasses

import numpy as np
import pytest
import torch
from label_issues.report.report_cases import findings

from ptd_ext.engine.rows.labels import array_of, encode_labels
from ptd_ext.label_issues.findings import LabelIssues, judge
from ptd_ext.label_issues.findings_file import _FORMAT, _KIND, read_findings, write_findings
from ptd_ext.utils import tensor_files


def judged(ids=None, labels=("a", "b", "a"), **changes):
    labels = encode_labels(labels)
    posterior = np.array([[1 / 3, 2 / 3], [0.7, 0.3], [0.1, 0.9]], dtype=np.float32)
    return judge(posterior, labels, np.eye(2), ids=ids, **changes)


def kept(found, tmp_path):
    path = tmp_path / "labels.safetensors"
    found.save(path)
    return LabelIssues.load(path)


def assert_equal(one, two):
    for field in dataclasses.fields(LabelIssues):
        a, b = getattr(one, field.name), getattr(two, field.name)
        if field.name == "sample":
            assert b is None
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, field.name
            assert a.tolist() == b.tolist(), field.name
        elif field.name == "curves":
            np.testing.assert_equal(dict(a), b)
        else:
            assert a == b, field.name


def test_every_field_is_kept(tmp_path):
    assert_equal(findings(), kept(findings(), tmp_path))
    assert_equal(findings(0), kept(findings(0), tmp_path))
    plain = judged(trusted=False, warnings=("No better than chance.",), notes=("age: number",))
    assert_equal(plain, kept(plain, tmp_path))


@pytest.mark.parametrize(
    "ids",
    [
        np.array([2**64 - 1, 2**63, 0], dtype=np.uint64),
        np.array([-(2**63), 0, 2**63 - 1]),
        np.array([1, 2, 255], dtype=np.uint8),
        np.array([0.1, -0.0, 1e300]),
        np.array([1.5, 2.5, 3.5], dtype=">f4"),
        np.array([True, False, True]),
        np.datetime64("2020-01-01", "ns") + np.arange(3),
        np.array([1, 2, 3], dtype="m8[s]"),
        np.array(["a", "long-name", ""]),
        array_of(["line\r\nend", "NUL\0", "\udc80 of a file name"]),
        array_of([("a", 1), ("b", (2.5, None)), ()]),
        array_of([1, "1", 2**70]),
    ],
    ids=lambda ids: f"{ids.dtype}-{str(ids[0])[:8]!r}",
)
def test_ids_are_kept(tmp_path, ids):
    found = kept(judged(ids), tmp_path).ids
    assert found.dtype == ids.dtype
    assert found.tolist() == ids.tolist()
    assert list(map(type, found.tolist())) == list(map(type, ids.tolist()))


@pytest.mark.parametrize(
    "labels",
    [
        [True, False, True],
        [1.0, 2.0, 1.0],
        [2**70, 1, 2**70],
        np.array([3, 7, 3], np.int8),
        ["x" * 10_000_000, "y", "y"],
        [("a", 1), ("b", 2), ("a", 1)],
        [None, "x", None],
    ],
    ids=["bool", "float", "large", "int8", "long", "tuple", "none"],
)
def test_labels_are_kept(tmp_path, labels):
    if labels[0] is None:
        found = findings(3, ["x", "y"], classes=np.array([None, "x"], dtype=object))
        given = np.array(labels, dtype=object)
        found = dataclasses.replace(found, given_label=given, suggested_label=given)
    else:
        found = judged(labels=labels)
    again = kept(found, tmp_path)
    assert again.given_label.dtype == found.given_label.dtype
    assert again.given_label.tolist() == found.given_label.tolist()
    assert again.classes.tolist() == found.classes.tolist()


def test_numbers_of_numpy_in_objects_become_plain(tmp_path):
    ids = np.empty(3, dtype=object)
    ids[:] = [np.int64(1), np.str_("a"), np.float32(0.5)]
    assert kept(judged(ids), tmp_path).ids.tolist() == [1, "a", 0.5]


def test_other_objects_are_rejected_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match=r"ids must be numbers, strings, dates or tuples .* b'a'"):
        write_findings(judged(array_of([b"a", "b", "c"])), tmp_path / "f")
    with pytest.raises(TypeError, match="classes must be numbers"):
        write_findings(judged(labels=[frozenset(), "b", "b"]), tmp_path / "f")
    assert not list(tmp_path.iterdir())


def forge(path, tensors, about):
    """Write the findings with other tensors and metadata, and a checksum that fits."""
    write_findings(findings(), path)
    found, metadata = tensor_files.read(path, _KIND, (), _FORMAT)
    for name, change in tensors.items():
        found[name] = change(found[name])
    metadata = {name: value for name, value in (metadata | about).items() if value is not None}
    tensor_files.write(path, _KIND, found, metadata, _FORMAT)


def json_list(text):
    return lambda _: torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("tensors", "about", "message"),
    [
        ({"given": lambda t: t + 4}, {}, "given must hold indices from 0 to 3"),
        ({"suggested": lambda t: t - 4}, {}, "suggested must hold indices from 0 to 3"),
        ({"posterior": lambda t: t[:, :3]}, {}, r"posterior must be \[40, 4\] .*\[40, 3\]"),
        ({"is_label_issue": lambda t: t.long()}, {}, "is_label_issue must be .*torch.int64"),
        ({"transition": lambda t: t.half()}, {}, "transition must be .*torch.float16"),
        ({"rates": lambda t: t[:2]}, {}, r"rates must be \[5, 3\]"),
        ({"part_shares": lambda t: t[:1]}, {}, r"part_shares must be \[2\]"),
        ({"ids": json_list("[1, 2]")}, {}, r"posterior must be \[2, 4\]"),
        ({"ids": json_list("[1, 2")}, {}, "delimiter"),
        ({"ids": json_list('{"a": 1}')}, {}, "must be lists"),
        ({"ids": json_list("[[1], {}]")}, {}, "must not hold mappings"),
        ({"ids": json_list("[" * 10_000 + "]" * 10_000)}, {}, "recursion"),
        ({"ids": json_list("[[1]]")}, {"dtypes": {"ids": "<i8", "classes": "|O"}}, "flat lists"),
        ({"ids": json_list("[1e400]")}, {"dtypes": {"ids": "<i8", "classes": "|O"}}, "infinity"),
        ({}, {"dtypes": {"ids": "V8", "classes": "|O"}}, "must be lists"),
        ({}, {"dtypes": {"ids": "|O"}}, "it lacks 'classes'"),
        ({}, {"dtypes": None}, "it lacks 'dtypes'"),
        ({}, {"warnings": "none"}, "warnings must be a list of strings"),
        ({}, {"notes": [5]}, "notes must be a list of strings"),
        ({}, {"curves": ["loss", "a", "b"]}, "it lacks 'curve_2'"),
        ({}, {"curves": {"loss": 3}}, "curves must be a list of strings"),
        ({}, {"facts": []}, "facts must map names to values"),
    ],
)
def test_forged_findings(tmp_path, tensors, about, message):
    path = tmp_path / "labels.safetensors"
    forge(path, tensors, about)
    with pytest.raises(ValueError, match=rf"labels\.safetensors holds no usable .*{message}"):
        read_findings(path)


def test_other_files_are_rejected(tmp_path):
    with pytest.raises(FileNotFoundError):
        LabelIssues.load(tmp_path / "none")
    path = tmp_path / "labels.safetensors"
    judged().save(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is damaged"):
        LabelIssues.load(path)
    tensor_files.write(path, "label issues", {"x": torch.zeros(1)}, {}, version=1)
    with pytest.raises(ValueError, match="label issues in format 1, and this version reads"):
        LabelIssues.load(path)
    tensor_files.write(path, "label noise", {"x": torch.zeros(1)}, {})
    with pytest.raises(ValueError, match="must hold label issues; it holds label noise"):
        LabelIssues.load(path)
