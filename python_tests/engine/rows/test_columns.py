"""Columns of data frames as numbers."""

import numpy as np
import pytest

from ptd_ext.engine.rows.columns import Columns, is_frame

pandas = pytest.importorskip("pandas")


def test_numbers_stay_and_categories_take_a_column_each():
    frame = pandas.DataFrame(
        {"size": [1, 2, 3], "kind": ["b", "a", "b"], "old": [True, False, True]}
    )
    columns = Columns.fit(frame)
    assert columns == Columns(("size", "kind", "old"), (None, ("a", "b"), None))
    assert columns.encode(frame).tolist() == [[1, 0, 1, 1], [2, 1, 0, 0], [3, 0, 1, 1]]


def test_columns_are_found_by_name_and_unknown_values_are_zero():
    columns = Columns.fit(pandas.DataFrame({"size": [1.0, 2.0], "kind": ["a", "b"]}))
    other = pandas.DataFrame({"more": [9], "kind": ["c"], "size": [4]})
    assert columns.encode(other).tolist() == [[4, 0, 0]]


def test_nullable_numbers_are_numbers():
    frame = pandas.DataFrame({"size": pandas.array([1, 2], dtype="Int64")})
    columns = Columns.fit(frame)
    assert columns.categories == (None,)
    assert columns.encode(frame).tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"size": [1.0, None] + [2.0] * 18}, "'size' of X holds NaN or infinity in 1 rows, first"),
        ({"kind": ["a", None] * 10}, "'kind' of X holds no value at row 1|'kind'.*missing.*row 1"),
        ({"name": [f"id{row}" for row in range(20)]}, "'name' of X has 20 different values in 20"),
        ({"day": pandas.date_range("2020", periods=20)}, "'day' of X holds dates"),
        ({}, "X must have rows and columns"),
    ],
)
def test_columns_that_say_nothing_are_rejected(frame, message):
    frame = pandas.DataFrame(frame)
    with pytest.raises(ValueError, match=message):
        Columns.fit(frame).encode(frame)


def test_repeated_names_are_rejected_in_fit_and_later():
    frame = pandas.DataFrame(np.ones((3, 2)), columns=["a", "b"])
    columns = Columns.fit(frame)
    for names in (["a", "a"], [1, "1"]):
        repeated = pandas.DataFrame(np.ones((3, 3)), columns=[*names, "b"])
        for use in (Columns.fit, columns.encode):
            with pytest.raises(ValueError, match=f"X has several columns '{names[1]}': give each"):
                use(repeated)


def test_rows_without_names_are_rejected():
    columns = Columns.fit(pandas.DataFrame({"size": [1.0, 2.0]}))
    with pytest.raises(TypeError, match="data frame"):
        columns.encode(np.ones((2, 1)))
    with pytest.raises(ValueError, match="must have the columns of fit; it lacks 'size'"):
        columns.encode(pandas.DataFrame({"other": [1.0]}))


def test_frames_are_recognised():
    assert is_frame(pandas.DataFrame({"a": [1]}))
    assert not is_frame(np.ones((2, 2)))


@pytest.mark.parametrize(
    "values",
    [["1", "2", "1"], [1.0, 2.0, 1.0], [1, 2, 1], np.array([1, 2, 1], np.int8)],
    ids=["strings", "floats", "integers", "int8"],
)
def test_a_number_is_the_category_of_its_string(values):
    columns = Columns.fit(pandas.DataFrame({"kind": ["1", "2", "1"]}))
    found = columns.encode(pandas.DataFrame({"kind": values}))
    assert found.tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize("spellings", [("1", "0"), ("1.0", "0.0"), ("01", "00"), ("1e0", "0e0")])
@pytest.mark.parametrize("kind", [int, float, bool, object, np.float32])
def test_a_number_is_the_category_of_every_spelling(spellings, kind):
    columns = Columns.fit(pandas.DataFrame({"kind": spellings * 2}))
    expected = columns.encode(pandas.DataFrame({"kind": [*spellings, "7"]}))
    assert expected.sum(1).tolist() == [1, 1, 0]
    numbers = pandas.DataFrame({"kind": np.array([1, 0, 7], dtype=kind)})
    found = columns.encode(numbers)
    assert found[:2].tolist() == expected[:2].tolist()
    assert kind is bool or found[2].tolist() == expected[2].tolist()


def test_a_number_of_several_spellings_is_no_category():
    columns = Columns.fit(pandas.DataFrame({"kind": ["01", "1.0", "2"]}))
    found = columns.encode(pandas.DataFrame({"kind": [1, 2]}))
    assert found.sum(1).tolist() == [0, 1]


def complex_columns():
    numbers = [0.5, 2.0, 1.0]
    return {
        "complex": np.array(numbers) + 1j,
        "imaginary part zero": np.array(numbers) + 0j,
        "single": np.array(numbers, np.complex64),
        "objects": np.array([0.5, 2.0, 1j], dtype=object),
        "object of NumPy": np.array([0.5, np.complex64(1j), 1.0], dtype=object),
    }


@pytest.mark.parametrize("case", complex_columns())
@pytest.mark.parametrize("before", [[0.5, 2.0, 1.0], ["a", "b", "a"]], ids=["numbers", "strings"])
def test_complex_numbers_are_rejected(case, before):
    """A cast to real numbers would drop the imaginary parts."""
    frame = pandas.DataFrame({"size": complex_columns()[case]})
    message = "column 'size' of X holds complex numbers. Give real and imaginary part as two"
    with pytest.raises(ValueError, match=message):
        Columns.fit(frame)
    with pytest.raises(ValueError, match=message):
        Columns.fit(pandas.DataFrame({"size": before})).encode(frame)
