"""Tables read back equal, in Python's csv module and in pandas, whatever their strings are."""

import csv
import os

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ptd_ext.utils.csv_files import csv_line, write_csv

# A NUL ends a string in pandas' parser. Bytes of file names become single surrogates.
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
BYTES = st.binary().map(lambda name: os.fsdecode(name.replace(b"\0", b"")))
LIKELY = st.text(',;"\r\n\t =#a\ufeff')
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
def test_every_string_reads_back(tmp_path, rows, separator):
    pandas = pytest.importorskip("pandas")
    path, header = tmp_path / "table.csv", [f"c{i}" for i in range(len(rows[0]) if rows else 2)]
    write_csv(path, header, rows, separator=separator)
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        assert list(csv.reader(file, delimiter=separator)) == [header, *rows]
    frame = pandas.read_csv(
        path, sep=separator, dtype=object, keep_default_na=False, encoding_errors="surrogateescape"
    )
    assert list(frame.columns) == header
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
