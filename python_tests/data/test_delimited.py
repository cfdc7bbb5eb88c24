"""CSV and TSV files: labels as written, and copies that read back equal."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptd_ext.data.delimited import SEPARATORS, Delimited
from ptd_ext.utils.csv_files import write_csv

pandas = pytest.importorskip("pandas")


def labels(folder, *cells):
    path = folder / "d.csv"
    path.write_text("\n".join(["side", *cells]) + "\n")
    return Delimited(pandas, path).labels(0)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["007", "7"], ["007", "7"]),
        (["1.00", "2.00"], ["1.00", "2.00"]),
        (["TRUE", "FALSE"], ["TRUE", "FALSE"]),
        (["100", "1e2", "200", "100"], ["100", "100", "200", "100"]),
        (["1.00", "1.0", "1.0", "2"], ["1.0", "1.0", "1.0", "2"]),
        (["0.5", "1.5"], [0.5, 1.5]),
    ],
)
def test_labels_are_as_they_are_written(tmp_path, cells, expected):
    assert labels(tmp_path, *cells).tolist() == expected


def test_missing_labels(tmp_path):
    with pytest.raises(ValueError, match=r"must hold a label in every row; 'NA' in row 1 stands"):
        labels(tmp_path, "a", "NA")


def test_too_many_columns(tmp_path):
    from ptd_ext.utils.bounded_files import ContentError

    (tmp_path / "d.csv").write_text("y" + ",x" * 100_000 + "\n")
    with pytest.raises(ContentError, match="may have 100,000 columns; it has 100,001"):
        Delimited(pandas, tmp_path / "d.csv")


def test_spellings_of_a_number_stay_in_the_copy(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("side,n\n100,1\n1e2,2\n200,3\n100,4\n")
    table = Delimited(pandas, path)
    table.write(tmp_path / "c.csv", 0, np.array([True, True, True, False]), {2: "100"})
    assert (tmp_path / "c.csv").read_text() == "side,n\n100,1\n1e2,2\n100,3\n"


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@pytest.mark.parametrize("ending", SEPARATORS)
@settings(deadline=None)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
def test_copies_read_back_equal(tmp_path_factory, ending, rows):
    """In csv and in pandas, whatever the cells hold: separators, quotes, line breaks, returns."""
    folder = tmp_path_factory.mktemp("csv")
    path, copy = folder / f"d{ending}", folder / f"copy{ending}"
    write_csv(path, ("name", "side"), rows, separator=SEPARATORS[ending])
    table = Delimited(pandas, path)
    table.write(copy, 1, np.ones(len(rows), dtype=bool), {0: "new\rlabel"})
    expected = [["name", "side"], *map(list, rows)]
    expected[1][1] = "new\rlabel"
    text = copy.read_bytes().decode()
    assert list(csv.reader(io.StringIO(text, newline=""), delimiter=SEPARATORS[ending])) == expected
    found = pandas.read_csv(copy, sep=SEPARATORS[ending], dtype=str, na_filter=False)
    assert [found.columns.tolist(), *found.to_numpy().tolist()] == expected


def test_nul_characters_are_rejected(tmp_path):
    """pandas and csv before Python 3.11 do not read them."""
    from ptd_ext.utils.bounded_files import ContentError

    (tmp_path / "d.csv").write_bytes(b"side,n\na," + b"x" * (1 << 20) + b"\0\n")
    with pytest.raises(ContentError, match="must be text; it has NUL characters"):
        Delimited(pandas, tmp_path / "d.csv")


def test_names_that_begin_with_a_byte_order_mark(tmp_path):
    path, copy = tmp_path / "d.csv", tmp_path / "copy.csv"
    path.write_bytes("\ufeff\ufeffside,n\na,1\n".encode())
    table = Delimited(pandas, path)
    table.write(copy, 0, np.ones(1, dtype=bool), {})
    assert pandas.read_csv(copy).columns.tolist() == table.columns == ["\ufeffside", "n"]
