"""Tables: which columns are learned from, and what is rejected."""

import numpy as np
import pytest

from ptd_ext.data.tables import read_table

pandas = pytest.importorskip("pandas")


@pytest.fixture
def frame():
    generator = np.random.default_rng(0)
    frame = pandas.DataFrame(generator.normal(size=(20, 2)), columns=["width", "height"])
    frame["side"] = ["left", "right"] * 10
    return frame


def read(folder, frame, label="side", text=None, columns=(), ignore=(), **options):
    frame.to_csv(folder / "d.csv", **{"index": False, **options})
    return read_table(folder / "d.csv", label, text, columns, ignore)


def test_all_columns_but_the_labels(tmp_path, frame):
    data = read(tmp_path, frame)
    assert data.X.columns.tolist() == ["width", "height"]
    assert data.y.tolist() == frame["side"].tolist()
    assert data.ids.tolist() == list(range(20))
    assert data.notes == data.warnings == ()
    assert read(tmp_path, frame, ignore=["width"]).X.columns.tolist() == ["height"]
    assert data.columns is None


def test_columns_that_are_asked_for(tmp_path, frame):
    data = read(tmp_path, frame, columns=["height"])
    assert data.X.columns.tolist() == ["height"]
    assert data.columns == ("height",)
    data = read(tmp_path, frame, columns=["height", "width"], ignore=["width"])
    assert data.columns == ("height",)


def test_row_numbers_are_not_learned_from(tmp_path, frame):
    data = read(tmp_path, frame, index=True)
    assert data.X.columns.tolist() == ["width", "height"]
    assert "holds row numbers" in data.notes[0]
    frame.index = frame.index[::-1]
    assert read(tmp_path, frame, index=True).notes == ()


def test_copies_of_the_labels_get_a_warning(tmp_path, frame):
    frame["number"] = frame["side"].map({"left": 7, "right": 3})
    frame["half"] = frame["width"] > 0
    frame["once"] = [f"{side[0]}{row % 3}" for row, side in enumerate(frame["side"])]
    (warning,) = read(tmp_path, frame).warnings
    assert "Column 'number' determines the label of every row" in warning


def test_a_column_of_texts(tmp_path, frame):
    frame["text"] = ["salt bread", "ball goal"] * 10
    frame.loc[3, "text"] = None
    data = read(tmp_path, frame, text="text")
    assert data.X is data.shown
    assert data.X[:4] == ["salt bread", "ball goal", "salt bread", ""]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": None}, "--label must name the column of the labels: width, height, side"),
        ({"label": "colour"}, "has no column 'colour'; it has width, height, side"),
        ({"text": "side"}, "--text must name a column other than the labels, 'side'"),
        ({"ignore": ["depth"]}, "has no column 'depth'"),
        ({"columns": ["depth"]}, "has no column 'depth'"),
        ({"columns": ["side"]}, "--columns must name a column other than the labels, 'side'"),
        ({"text": "width", "ignore": ["height"]}, "--text learns from 'width' alone"),
        ({"ignore": ["width", "height"]}, "must have a column to learn from"),
        ({"label": "width"}, "'width' of .* must hold classes"),
    ],
)
def test_wrong_options(tmp_path, frame, options, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, frame, **options)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n" + b"1,2,3\n" * 9, "must have as many cells in a row as names in its first line"),
        (b"a,a\n1,2\n", "has 2 columns named 'a'"),
        (b"a,b\n\xff,2\n", "must be UTF-8 text"),
        (b"", "cannot be read as a table: No columns to parse from file"),
    ],
)
def test_wrong_files(tmp_path, content, message):
    (tmp_path / "d.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "d.csv", "a")
