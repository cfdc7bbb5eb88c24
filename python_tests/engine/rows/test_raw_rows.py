"""Rows of many kinds as checked arrays and images."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.raw_rows import channels_last, is_sparse, raw_rows, take_rows


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((9, 8, 8, 3), True),
        ((9, 3, 8, 8), False),
        ((9, 3, 3, 3), False),  # both would do: channels come first
        ((9, 8, 3), False),
    ],
)
def test_channels_last_is_recognised_by_a_small_last_dimension(shape, found):
    assert channels_last(shape) == found


def test_tensors_arrays_and_lists_are_the_same_rows():
    rows = np.arange(6.0).reshape(3, 2)
    for given in (rows, rows.tolist(), torch.from_numpy(rows), rows[::-1].copy()[::-1]):
        found = raw_rows(given)
        assert found.tolist() == rows.tolist()
        assert found.flags.c_contiguous


def test_sparse_tensors_become_sparse_matrices():
    pytest.importorskip("scipy")
    dense = torch.eye(4, 3)
    for given in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()):
        found = raw_rows(given)
        assert is_sparse(found)
        assert found.toarray().tolist() == dense.tolist()


def test_rows_of_every_kind_are_taken_by_position():
    pandas = pytest.importorskip("pandas")
    rows, where = np.arange(12.0).reshape(4, 3), np.array([3, 1])
    for given in (rows, torch.from_numpy(rows), csr_array(rows), csr_array(rows).tocoo()):
        found = take_rows(given, where)
        found = found.toarray() if is_sparse(found) else found
        assert found.tolist() == rows[where].tolist()
    frame = pandas.DataFrame(rows, index=list("abcd"))
    assert take_rows(frame, where).index.tolist() == ["d", "b"]
    assert take_rows(["a", "b", "c", "d"], where) == ["d", "b"]
    files = take_rows(ImageFiles("", ["a.png", "b.png", "c.png", "d.png"], 16), where)
    assert ([files.name(0), files.name(1)], files.size) == (["d.png", "b.png"], 16)


def test_images_stay_bytes_and_become_float32():
    assert raw_rows(np.zeros((2, 1, 4, 4), np.uint8)).dtype == torch.uint8
    assert raw_rows(torch.zeros(2, 1, 4, 4, dtype=torch.bfloat16)).dtype == torch.float32
    assert raw_rows(np.zeros((2, 4, 4)), images=True).shape == (2, 4, 4)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((9, 8, 8, 3)), r"\[9, 8, 8, 3\] look like \[N, height"),
        (np.ones((2, 1, 4, 4), dtype=np.int32), "bytes or floats as images; got torch.int32"),
        (np.full((2, 1, 4, 4), np.inf), "a number beyond float32 in image 0"),
        (np.where(np.arange(32).reshape(2, 1, 4, 4) == 20, 1e300, 0), "float32 in image 1"),
        (np.ones((3, 2)) + 1j, "Complex data not supported"),
        (torch.ones(3, 2).cfloat(), "Complex data not supported"),
        (csr_array(np.ones((3, 2)) + 1j), "Complex data not supported"),
        (np.array([[1.0, np.complex64(1j)]] * 3, dtype=object), "Complex data not supported"),
        (np.ones((3, 1, 4, 4)) + 1j, "bytes or floats as images; got torch.complex128"),
        ([["a", "b"]], "could not convert string to float"),
    ],
)
def test_other_values_are_rejected(rows, message):
    with pytest.raises(ValueError, match=message):
        raw_rows(rows)
