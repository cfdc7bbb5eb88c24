"""Tables read back equal, in Python's csv module and in pandas, whatever their strings are."""

import csv
import os

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ptd_ext.utils.csv_files import csv_line, write_csv

# Python before 3.11 does not read a NUL. Bytes of file names become single surrogates.
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
BYTES = st.binary().map(lambda name: os.fsdecode(name.replace(b"\0", b"")))
LIKELY = st.text(',;"\r\n\t =#a\ufeff\x85\u2028\u2029\x1c')
CELLS = st.one_of(PLAIN, BYTES, LIKELY)
TABLES = st.integers(1, 4).flatmap(
    lambda columns: st.lists(st.lists(CELLS, min_size=columns, max_size=columns), max_size=6)
)
reused_folder = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@reused_folder
@given(rows=TABLES, separator=st.sampled_from([",", "\t", ";"]))
@example(rows=[["\t"], ["a"]], separator=",")
@example(rows=[["\ufeff"]], separator=",")
def test_every_string_reads_back(tmp_path, rows, separator):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "table.csv"
    options = {"sep": separator, "dtype": object, "keep_default_na": False}
    options["encoding_errors"] = "surrogateescape"
    named = [[f"c{i}" for i in range(len(rows[0]) if rows else 2)], *rows]
    for table in (named, rows) if rows else (named,):  # names of columns may be any strings, too
        write_csv(path, table[0], table[1:], separator=separator)
        for encoding in ("utf-8", "utf-8-sig"):
            with open(path, newline="", encoding=encoding, errors="surrogateescape") as file:
                assert list(csv.reader(file, delimiter=separator)) == table
        assert pandas.read_csv(path, header=None, **options).to_numpy().tolist() == table
    write_csv(path, named[0], rows, separator=separator)
    frame = pandas.read_csv(path, **options)
    assert list(frame.columns) == named[0]
    assert frame.to_numpy().tolist() == rows


@given(st.floats(allow_nan=False))
def test_floats_keep_every_digit(value):
    assert float(csv_line([value])) == value


def test_cells_without_special_characters_are_not_quoted():
    assert csv_line(["a b", 1, True, None, 0.1]) == "a b,1,True,,0.1\n"
    assert csv_line(["a,b", "c;d"], ";") == 'a,b;"c;d"\n'
    assert csv_line(['say "hi"', "two\r\nlines"]) == '"say ""hi""","two\r\nlines"\n'
    assert csv_line([""]) == '""\n'


def test_a_failed_write_leaves_the_old_table(tmp_path):
    path = tmp_path / "table.csv"
    write_csv(path, ["a"], [[1]])
    with pytest.raises(ZeroDivisionError):
        write_csv(path, ["a"], ([1 // number] for number in (1, 0)))
    assert path.read_text() == "a\n1\n"
    assert os.listdir(tmp_path) == ["table.csv"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\0b", r"in row 1, 'a.*b' has a NUL character, which some readers reject"),
        ("\ud800", "has surrogates, which are not characters"),
        ("\udcc3\udca9", "has surrogates, which are not characters"),  # the bytes of é
    ],
)
def test_strings_that_no_reader_gives_back_are_rejected(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"table\.csv cannot be written: .*{message}"):
        write_csv(tmp_path / "table.csv", ["a", "b"], [["x", "y"], ["x", text]])
    with pytest.raises(ValueError, match="cannot be written: in the header, "):
        write_csv(tmp_path / "table.csv", ["a", text], [])
    assert os.listdir(tmp_path) == []


@given(st.text(st.characters()))
def test_a_string_reads_back_or_is_rejected(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "one.csv"
    try:
        write_csv(path, ["a"], [[text]])
    except ValueError:
        assert "\0" in text or any("\ud800" <= character <= "\udfff" for character in text)
        return
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        assert list(csv.reader(file)) == [["a"], [text]]
