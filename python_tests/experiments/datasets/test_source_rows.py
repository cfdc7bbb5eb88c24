"""Rows of several splits in the order of the file or folder they came from."""

import numpy as np
import pytest
import torch

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.experiments.datasets.source_rows import SourceRows

ROWS = torch.tensor([4, 0]), torch.tensor([1]), torch.tensor([5, 3])
LABELS = torch.tensor([40, 0]), torch.tensor([10]), torch.tensor([50, 30])


def source(stored=None, ids=None, rows=ROWS):
    plain = Preprocessing("table", torch.Size([1]), 1)
    stored = torch.zeros(6, 1) if stored is None else stored
    inputs = tuple(Inputs(stored, where, plain) for where in rows)
    return SourceRows(inputs, LABELS, rows, ids)


def test_labels_are_put_in_the_order_of_the_source():
    found = source()
    assert found.order().tolist() == [1, 2, 4, 0, 3]


def test_ids_are_row_numbers_unless_there_are_others():
    numbers = source().all_ids()
    assert numbers.dtype == np.int64
    assert numbers.tolist() == [0, 1, 3, 4, 5]
    assert source(ids=np.array(list("abcdef"))).all_ids().tolist() == list("abdef")


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(6, dtype=np.uint64) + np.uint64(2**63),
        np.arange("2020-01-01", "2020-01-07", dtype="datetime64[D]").astype("datetime64[ns]"),
        np.array([2**70 + number for number in range(6)], dtype=object),
        np.array([("a", number) for number in range(6)] + [None], dtype=object)[:6],
    ],
    ids=["uint64", "dates", "large integers", "tuples"],
)
def test_ids_keep_their_type(ids):
    found = source(ids=ids).all_ids()
    assert found.dtype == ids.dtype
    assert found.tolist() == ids[[0, 1, 3, 4, 5]].tolist()


def test_images_have_their_file_names():
    files = ImageFiles("", [f"{number}.png" for number in range(6)], 8)
    found = source(files).all_ids()
    assert found.dtype == object
    assert found.tolist() == ["0.png", "1.png", "3.png", "4.png", "5.png"]
