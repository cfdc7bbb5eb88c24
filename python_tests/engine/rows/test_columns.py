"""The columns of tables, and texts, as numbers."""

import numpy as np
import pytest

from ptd_ext.engine.rows.columns import Columns, are_texts, has_columns, is_frame

pandas = pytest.importorskip("pandas")
RANDOM = np.random.default_rng(0)
COMMENTS = ["good salt bread", "good ball game"] * 10


def mixed(rows=40):
    """A table with a column of every kind."""
    return pandas.DataFrame(
        {
            "customer_id": RANDOM.permutation(rows) + 1000,
            "age": [np.nan if row % 5 == 0 else 20.0 + row for row in range(rows)],
            "joined": [f"2021-03-{1 + row % 28:02d}" for row in range(rows)],
            "active": [row % 3 == 0 for row in range(rows)],
            "amount": ["?" if row == 7 else str(row + 0.5) for row in range(rows)],
            "country": [
                None if row % 10 == 1 else "de" if row % 2 else "fr" for row in range(rows)
            ],
            "comment": [f"{'good' if row % 2 else 'bad'} item number{row}" for row in range(rows)],
            "version": "v1",
        }
    )


def test_every_kind_in_one_run():
    frame = mixed()
    columns = Columns.fit(frame)
    kinds = {entry.name: entry.kind for entry in columns.entries}
    assert kinds == {
        "customer_id": "left out",
        "age": "number",
        "joined": "date",
        "active": "number",
        "amount": "number",
        "country": "category",
        "comment": "text",
        "version": "left out",
    }
    found = columns.encode(frame)
    # age and its indicator, the date, active, amount, three categories, three words
    assert found.shape == (40, 2 + 1 + 1 + 1 + 3 + 3)
    assert found[:2, :4].tolist() == [[40, 1, 18687, 1], [21, 0, 18688, 0]]
    assert found[7, 4] == np.median(np.delete(np.arange(40), 7) + 0.5)
    assert found[:3, 5:8].tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert columns.text_blocks() == [slice(8, 11)]
    assert np.isfinite(found).all()


def test_the_summary_names_what_becomes_of_every_column():
    columns = Columns.fit(mixed())
    assert columns.summary() == [
        "customer_id: left out: another value in every row, like an id",
        "age: number; 20.0% missing: the median 40 and an indicator column",
        "joined: year-month-day as days",
        "active: number",
        "amount: number; 2.5% missing or not a number: the median 20.5",
        "country: category of 2 values, and one for 10.0% missing",
        "comment: text of 3 different words (TF-IDF)",
        "version: left out: the same value in every row",
    ]
    assert columns.brief() == (
        "3 numbers, 1 date, 1 category, 1 text; left out: customer_id, version"
    )


def test_rows_that_are_held_out_change_nothing():
    frame = mixed()
    rows = np.arange(30)
    other = frame.copy()
    other.loc[30:, "age"] = 1e6
    other.loc[30:, "country"] = "us"
    other.loc[30:, "comment"] = "unseen words unseen words"
    one, two = (Columns.fit(each, rows=rows) for each in (frame, other))
    for first, second in zip(one.entries, two.entries, strict=True):
        assert (first.median, first.categories) == (second.median, second.categories)
        assert first.words is None or first.words.words == second.words.words
    np.testing.assert_array_equal(one.encode(frame), two.encode(frame))


def test_columns_are_found_by_name_and_unknown_values_are_zero():
    columns = Columns.fit(pandas.DataFrame({"size": [1.0, 2.0], "kind": ["a", "b"]}))
    other = pandas.DataFrame({"more": [9], "kind": ["c"], "size": [4]})
    assert columns.encode(other).tolist() == [[4, 0, 0]]


def test_missing_values_that_fit_has_not_seen():
    columns = Columns.fit(pandas.DataFrame({"size": [1.0, 2.0, 9.0], "kind": ["a", "b", "a"]}))
    other = pandas.DataFrame({"size": [None, np.inf], "kind": [None, "b"]})
    assert columns.encode(other).tolist() == [[2, 0, 0], [2, 0, 1]]


def test_columns_that_are_asked_for_are_not_ids():
    frame = mixed()
    found = Columns.fit(frame, only=["customer_id", "version"])
    assert [entry.kind for entry in found.entries][:2] == ["number", "left out"]
    assert found.encode(frame)[:, 0].tolist() == frame["customer_id"].tolist()
    found = Columns.fit(frame, ignore=["age", "comment"])
    assert "age: left out, as asked" in found.summary()
    assert found.encode(frame.drop(columns=["age", "comment"])).shape == (40, 6)


@pytest.mark.parametrize("options", [{"only": ["size", "ages"]}, {"ignore": "ages"}])
def test_names_that_no_column_has(options):
    argument = "columns" if "only" in options else "ignore"
    with pytest.raises(ValueError, match=f"{argument} must name columns of X; it has no .*'ages'"):
        Columns.fit(pandas.DataFrame({"size": [1.0, 2.0]}), **options)


def test_nothing_to_learn_from():
    frame = pandas.DataFrame({"id": np.arange(30), "one": 1})
    with pytest.raises(ValueError, match=r"must have a column to learn from; .*id: left out"):
        Columns.fit(frame)
    with pytest.raises(ValueError, match="X must have rows and columns"):
        Columns.fit(pandas.DataFrame({}))


def test_texts_are_a_table_of_one_column():
    series = pandas.Series([*COMMENTS, None])
    for texts in (COMMENTS, np.array(COMMENTS), series):
        columns = Columns.fit(texts)
        assert columns.texts
        found = columns.encode(texts)
        assert found.shape == (len(texts), 5)
        np.testing.assert_allclose((found[:20] ** 2).sum(1), 1, rtol=1e-6)
    assert found[20].tolist() == [0] * 5
    with pytest.raises(TypeError, match="X must be texts, as in fit; got DataFrame"):
        columns.encode(pandas.DataFrame({"text": COMMENTS}))
    with pytest.raises(ValueError, match="X must be texts that share words"):
        Columns.fit([f"word{row}" for row in range(9)])
    with pytest.raises(ValueError, match="columns and ignore must not be given for texts"):
        Columns.fit(COMMENTS, only=["a"])


def test_what_has_columns():
    assert is_frame(pandas.DataFrame({"a": [1]}))
    assert not is_frame(np.ones((2, 2)))
    assert has_columns(pandas.DataFrame({"a": [1]}))
    assert has_columns(COMMENTS)
    for other in (np.ones((2, 2)), [[1, 2]], [1, 2], [None], "text", np.array([["a"]]), [["a"]]):
        assert not are_texts(other)


def test_repeated_names_are_rejected_in_fit_and_later():
    frame = pandas.DataFrame(RANDOM.normal(size=(3, 2)), columns=["a", "b"])
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


def test_a_number_of_several_spellings_is_not_a_category():
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
