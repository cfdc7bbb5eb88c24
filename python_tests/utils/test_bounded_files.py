"""Files that are read within limits: the limits to the byte, and the form of every error."""

import io

import pytest

from ptd_ext.utils.bounded_files import (
    ContentError,
    check_size,
    read_bytes,
    read_json,
    read_lines,
    read_stream,
    reading,
    reason,
    shortened,
)


def test_a_file_of_exactly_the_limit_is_read(tmp_path):
    (tmp_path / "f").write_bytes(b"123")
    assert read_bytes(tmp_path / "f", 3) == b"123"
    with pytest.raises(ValueError, match="f declares 3 bytes, more than the 2 bytes that such"):
        read_bytes(tmp_path / "f", 2)
    check_size(5, "f", 5)
    with pytest.raises(ValueError, match="f declares 6 bytes"):
        check_size(6, "f", 5)


def test_a_file_that_grows_is_rejected(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes(b"123")
    stat = type(path).stat

    def small(self, **options):
        found = list(stat(self, **options))
        found[6] = 2  # the size
        return type(stat(self))(found)

    monkeypatch.setattr(type(path), "stat", small)
    with pytest.raises(ValueError, match="f grew while it was read"):
        read_bytes(path)


def test_a_line_may_have_the_limit_and_no_more(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"1234567\n1\n12345678")
    assert list(read_lines(path, line_limit=8)) == [
        (1, b"1234567\n"),
        (2, b"1\n"),
        (3, b"12345678"),
    ]
    for text in (b"1\n12345678\n", b"1\n123456789", b"1\n" + b"1" * 100):
        path.write_bytes(text)
        with pytest.raises(ValueError, match=r"Line 2 of .*lines must have at most 8 bytes"):
            list(read_lines(path, line_limit=8))
    with pytest.raises(ValueError, match="lines declares 102 bytes"):
        next(read_lines(path, limit=101))


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "", "\xff"])
def test_what_is_not_json(tmp_path, content):
    (tmp_path / "f").write_text(content, encoding="latin-1")
    with pytest.raises(ValueError, match=r"f is damaged: it is not JSON \("):
        read_json(tmp_path / "f")


def test_json(tmp_path):
    (tmp_path / "f").write_text('{"a": [1, null]}')
    assert read_json(tmp_path / "f") == {"a": [1, None]}
    assert read_json(tmp_path / "f", 16) == {"a": [1, None]}
    with pytest.raises(ValueError, match="f declares 16 bytes"):
        read_json(tmp_path / "f", 15)


def test_a_stream_gives_what_it_has():
    for size, expected in ((0, b""), (2, b"ab"), (3, b"abc"), (1 << 40, b"abc")):
        assert read_stream(io.BytesIO(b"abc"), size) == expected
    long = bytes(range(256)) * (1 << 13)
    assert read_stream(io.BytesIO(long), len(long) - 1) == long[:-1]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ContentError("must hold y"), ValueError, "^a/f must hold y.$"),
        (KeyError("x"), ValueError, "^a/f is cut off, damaged or not a cake: 'x'. Repair or repl"),
        (ValueError("odd"), ValueError, "^a/f is cut off, damaged or not a cake: odd. Repair"),
        (ValueError("a/f is odd."), ValueError, "^a/f is odd.$"),
        (UnicodeDecodeError("a/f", b"", 0, 1, "x"), ValueError, "^a/f is cut off"),
        (FileNotFoundError("a/f"), FileNotFoundError, "a/f"),
        (PermissionError("a/f"), PermissionError, "a/f"),
        (IsADirectoryError("a/f"), IsADirectoryError, "a/f"),
        (MemoryError("a/f"), MemoryError, "a/f"),
        (ImportError("scipy"), ImportError, "scipy"),
    ],
)
def test_errors_over_contents_name_the_file(error, kind, message):
    with pytest.raises(kind, match=message), reading("a/f", "a cake"):
        raise error


def test_a_reason_is_one_short_line():
    assert reason(ValueError("  first line. \nsecond")) == "first line"
    assert reason(ValueError("")) == "ValueError"
    assert reason(ValueError("a" * 201)) == "a" * 200 + "…"


def test_a_value_from_a_file_is_quoted_up_to_its_limit():
    assert shortened("a" * 80) == "a" * 80
    assert shortened("a" * 81) == "a" * 80 + "…"
    assert (
        shortened("a\nb\x1b[31m", 9) == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[31m"
    )
    assert shortened(["x"], 3) == "['x…"
