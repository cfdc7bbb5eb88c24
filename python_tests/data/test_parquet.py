"""Parquet files: bounds, and copies that keep types and index."""

import numpy as np
import pytest

from ptd_ext.data.parquet import Parquet
from ptd_ext.utils.bounded_files import ContentError

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")


def test_copies_keep_types_and_index(tmp_path):
    frame = pandas.DataFrame({"side": list("abab"), "n": np.arange(4, dtype=np.int8)})
    frame["side"] = frame["side"].astype("category")
    frame.index = pandas.Index(list("wxyz"), name="key")
    frame.to_parquet(tmp_path / "d.parquet")
    table = Parquet(pandas, tmp_path / "d.parquet")
    assert table.columns == ["side", "n"]
    table.write(tmp_path / "c.parquet", 0, np.array([True, False, True, True]), {3: "a"})
    copy = pandas.read_parquet(tmp_path / "c.parquet")
    assert copy["side"].tolist() == ["a", "a", "a"]
    assert copy.dtypes.tolist() == frame.dtypes.tolist()
    assert copy.index.tolist() == ["w", "y", "z"]
    assert table.labels(0).tolist() == list("abab")


def test_equal_values_are_counted_as_cells(tmp_path):
    """The file has some kilobytes."""
    from pyarrow import parquet

    once = pyarrow.array(np.zeros(1_000_000, dtype=np.int8))
    column = pyarrow.chunked_array([once] * 200)
    parquet.write_table(pyarrow.table({"side": column}), tmp_path / "d.parquet")
    with pytest.raises(ContentError, match="declares 1,600,000,000 bytes, more than the"):
        Parquet(pandas, tmp_path / "d.parquet")


def test_columns_of_the_same_name(tmp_path):
    from pyarrow import parquet

    table = pyarrow.table([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    parquet.write_table(table, tmp_path / "d.parquet")
    with pytest.raises((ContentError, ValueError)):
        Parquet(pandas, tmp_path / "d.parquet")
