"""What a column of a table holds, and its values as numbers."""

import decimal

import numpy as np
import pytest

from ptd_ext.engine.rows.column import Column, missing_values, numbers_of, texts_of

pandas = pytest.importorskip("pandas")
MANY = 40
LETTERS = [chr(97 + row % 26) * (1 + row // 26) for row in range(MANY)]


def fit(values, name="x", **options):
    return Column.fit(name, pandas.Series(values).to_numpy(), **options)


def encoded(column, values):
    found = np.zeros((len(values), column.width))
    column.encode(pandas.Series(values).to_numpy(), found)
    return found.tolist()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3], "number"),
        ([True, False, None], "number"),
        (pandas.array([1, None, 3], dtype="Int64"), "number"),
        ([decimal.Decimal("1.5"), 2, None], "number"),
        ([0.5, np.inf, 1.0], "number"),
        ([1, "2", 3.5, "none"] * 3, "number"),
        (["1.5", "?", "2.5"], "number"),
        ([f"{row}.5" for row in range(500)], "number"),  # too many values for categories
        (["01067", "80331"] * 9, "category"),  # postal codes
        (["S", "M", "38", "40", "L", "XL", "XS"], "category"),
        (["a", None, "b"], "category"),
        (pandas.Categorical([3, 1, 3]), "number"),  # the array has lost its type
        ([b"a", b"b", b"a"], "category"),
        ([(1, 2), (3, 4), (1, 2)], "category"),
        (pandas.date_range("2020", periods=20), "date"),
        (pandas.to_timedelta(["1h", "2h", None]), "date"),
        (["2020-01-05", "2020-02-01", None], "date"),
        (["never", *(f"2020-01-{day:02d}" for day in range(1, 29))], "date"),
        (["a b", "a c"] * MANY, "category"),
        ([f"shared {row}" for row in range(500)], "text"),
        ([f"{letter}-{row}" for row, letter in enumerate(LETTERS)], "left out"),
        ([f"w{row % 300}" for row in range(500)], "text"),  # repeated words, no ids
        (np.arange(MANY) + 7, "left out"),
        (np.arange(MANY) * 1000, "number"),
        (np.arange(MANY) + 0.5, "number"),
        ([None, np.nan], "left out"),
        ([np.inf, np.nan], "left out"),
        ([5, 5, 5], "left out"),
        (["a", "a"], "left out"),
        (["a", None], "category"),
        ([[1.0, 2.0], [3.0, 4.0]], "left out"),
        ([{"a": 1}, None], "left out"),
    ],
)
def test_the_kind_of_a_column(values, kind):
    assert fit(values).kind == kind


@pytest.mark.parametrize("name", ["id", "user_id", "userId", "ID", "user.uuid", "Index"])
def test_names_of_ids(name):
    values = np.arange(MANY) * 1000
    assert fit(values, name.lower() if name in ("ID", "Index") else name).kind == "left out"
    assert fit(values, name, named=True).kind == "number"
    for other in ("paid", "width", "grid", "Madrid"):
        assert fit(values, other).kind == "number"


def test_a_category_of_numbers():
    assert fit([3, 1, 3], category=True).categories == ("1", "3")


def test_missing_numbers_are_the_median_and_are_marked():
    column = fit([1, None, 3, 8] * 5)
    assert (column.median, column.missing, column.width) == (3, True, 2)
    assert encoded(column, [None, 2, "5"]) == [[3, 1], [2, 0], [5, 0]]
    few = fit([1, None, 3, 8])
    assert (few.missing, encoded(few, [None, 2])) == (False, [[3], [2]])


def test_missing_categories_are_a_category():
    column = fit(["b", None, "a"])
    assert encoded(column, [None, "a", "c"]) == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_missing_dates():
    column = fit(["2020-01-01", None, "2020-01-05"] * 5)
    assert encoded(column, ["2020-01-02", None]) == [[18263, 0], [18264, 1]]
    assert encoded(column, pandas.to_datetime(["2020-01-02 12:00", None])) == [
        [18263.5, 0],
        [18264, 1],
    ]


def test_values_of_another_kind_than_in_fit():
    column = fit([1.0, 2.0])
    with pytest.raises(ValueError, match=r"'x' of X must hold numbers, .*; it holds 'a' in row 1"):
        encoded(column, [None, "a"])
    with pytest.raises(ValueError, match="'x' of X must hold dates"):
        encoded(fit(["2020-01-01", "2020-01-02"]), ["a", "b"])


def test_values_as_numbers_and_texts():
    values = np.array([1, "2", None, "a", 10**400, True], dtype=object)
    np.testing.assert_array_equal(numbers_of(values), [1, 2, np.nan, np.nan, np.nan, 1])
    assert missing_values(values).tolist() == [False, False, True, False, False, False]
    assert texts_of(values[:3]) == ["1", "2", ""]
