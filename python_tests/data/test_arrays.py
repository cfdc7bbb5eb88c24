"""Arrays of a .npz file: what is read, what is rejected, and the cleaned copy."""

import numpy as np
import pytest
import torch
from data.data_cases import RANDOM, X, Y, npy_start, replace_member, save

from ptd_ext.data.arrays import read_arrays
from ptd_ext.data.read import read_data


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((10, 6, 5), (1, 6, 5)), ((10, 6, 5, 3), (3, 6, 5)), ((10, 3, 6, 5), (3, 6, 5))],
)
@pytest.mark.parametrize("dtype", [np.uint8, ">f4"])
def test_images_have_channels_first(tmp_path, shape, expected, dtype):
    x = RANDOM.integers(0, 256, shape).astype(dtype)
    data = read_arrays(save(tmp_path, x=x, y=np.arange(10) % 2), parts=False)
    assert data.X.shape == (10, *expected)
    chosen = x[7, 2, 4, 1] if shape[-1] == 3 else x[7, 1, 2, 4] if len(shape) == 4 else x[7, 2, 4]
    assert data.X[7, min(1, expected[0] - 1), 2, 4] == chosen


def test_only_what_is_asked_for_is_read(tmp_path):
    path = save(tmp_path, x=X, y=Y, x_test=X[:2], y_test=Y[:2], more=np.zeros(3))
    replace_member(path, "more.npy", b"damaged")
    assert read_arrays(path, parts=False).test is None
    data = read_arrays(path, parts=True)
    assert data.test.y.tolist() == [0, 1]
    assert data.test.ids.tolist() == [4, 5]
    assert data.ids.tolist() == [0, 1, 2, 3]
    assert data.validation is None
    assert data.y_clean is None


def test_labels_are_named(tmp_path):
    names = np.array(["no", "yes", "maybe"])
    arrays = {"x": X, "y": Y[:, None], "y_clean": 1 - Y, "class_names": names}
    data = read_arrays(save(tmp_path, **arrays), parts=False)
    assert data.classes == ("no", "yes", "maybe")
    assert data.y.tolist() == ["no", "yes", "no", "yes"]
    assert data.y_clean.tolist() == ["yes", "no", "yes", "no"]


WRONG = [
    ({"y": Y}, "must hold x and y; it holds y"),
    ({"x": X, "y": Y, "x_test": X}, "both x_test and y_test, or neither"),
    ({"x": X, "y": Y[:3]}, "one of y for each of the 4 rows of x; its shape is .3."),
    ({"x": X, "y": Y, "y_clean": Y[:2]}, "one of y_clean for each"),
    ({"x": X, "y": Y, "x_test": X, "y_test": Y[:3]}, "one of y_test for each .* rows of x_test"),
    ({"x": X, "y": Y * 0.5}, "y of .*d.npz must hold classes"),
    ({"x": X, "y": Y * 1j}, "y of .* must hold classes. Complex"),
    ({"x": X * 1j, "y": Y}, "x of .* of real numbers; it is complex128"),
    ({"x": np.array(3.0), "y": Y}, "x of .* must be rows"),
    ({"x": X[..., None].astype(int), "y": Y}, "x of .* must be images of uint8 or floats; it is"),
    ({"x": X, "y": Y, "ids": Y[:3]}, "one of ids for each of the 4 rows"),
    ({"x": X, "y": Y, "ids": Y * 0.5}, r"ids of .* must be integers or strings \[4\]; got float64"),
    (
        {"x": X, "y": Y, "ids": np.arange(4), "x_test": X, "y_test": Y},
        r"ids_test of .* must be integers or strings \[4\]; got none",
    ),
    (
        {"x": X, "y": Y, "ids": Y, "x_test": X, "y_test": Y, "ids_test": np.array(list("abcd"))},
        "ids and ids_test of one kind",
    ),
    (
        {"x": X, "y": Y, "class_names": np.array(["a"])},
        "a name for every class; it has 1",
    ),
    ({"x": X, "y": Y, "class_names": np.array(["a", "a"])}, "all different"),
    ({"x": X, "y": Y, "class_names": Y}, r"class_names of .* must be strings \[C\]"),
    ({"x": X, "y": Y * 1.0, "class_names": np.array(["a", "b"])}, "must hold integers or strings"),
    ({"x": X, "y": np.array(list("abab")), "y_clean": Y}, "y_clean of .* must be of the same kind"),
    (
        {"x": X, "y": np.array(list("abac")), "class_names": np.array(["a", "b"])},
        "y of .* holds 'c', which is not among class_names",
    ),
    ({"x": np.array([list("abc")] * 4), "y": Y}, "must hold numbers; x holds <U1"),
    ({"x": X * np.nan, "y": Y}, "must be finite; it holds NaN or infinity in row 0"),
    ({"x": X, "y": np.array([{}] * 4)}, "y holds Python objects, which could run code"),
]


@pytest.mark.parametrize(("arrays", "message"), WRONG)
def test_wrong_arrays(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=message):
        read_arrays(save(tmp_path, **arrays), parts=True)


def test_float8_is_named(tmp_path):
    """NumPy has no float8; ml_dtypes writes it as one byte of its own."""
    path = save(tmp_path, x=X, y=Y)
    for kind in ("<f1", "|V1"):
        replace_member(path, "x.npy", npy_start(kind, (4, 3)) + bytes(12))
        with pytest.raises(ValueError, match=r"must hold numbers.*float32"):
            read_arrays(path, parts=False)


def test_strings_that_are_not_characters(tmp_path):
    path = save(tmp_path, x=X, y=np.array(list("abab")))
    replace_member(path, "y.npy", npy_start("<U1", (4,)) + b"\xff" * 16)
    with pytest.raises(ValueError, match="code points that are not characters"):
        read_arrays(path, parts=False)


def test_the_copy_has_the_layout_of_the_file(tmp_path):
    names = np.array(["no", "yes"])
    y = Y.astype(np.int8)[:, None]
    path = save(tmp_path, x=X, y=y, class_names=names, x_test=np.ones((2, 2)), note=np.array(4))
    data = read_arrays(path, parts=False)
    keep = np.array([True, False, True, True])
    data.write(tmp_path / "copy.npz", keep, np.array(["yes", "no", "no", "no"]))
    copy = np.load(tmp_path / "copy.npz")
    assert copy["y"].tolist() == [[1], [0], [0]]
    assert copy["y"].dtype == np.int8
    assert copy["x"].shape == (3, 3)
    assert copy["x_test"].shape == (2, 2)
    assert copy["note"] == 4


def test_images_are_tensors(tmp_path):
    data = read_arrays(save(tmp_path, x=np.zeros((4, 2, 2), np.uint8), y=Y), parts=False)
    assert isinstance(data.X, torch.Tensor)
    assert data.rows() is data.X


def test_rows_and_labels_in_two_files(tmp_path):
    x, y = np.arange(24.0).reshape(12, 2), np.array(["a", "b", "c"] * 4)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    found = read_data(tmp_path / "x.npy", label=str(tmp_path / "y.npy"))
    np.testing.assert_array_equal(found.X, x)
    assert found.y.tolist() == y.tolist()
    assert found.ids.tolist() == list(range(12))
    keep, new = np.arange(12) > 0, np.where(y == "a", "b", y)
    found.write(tmp_path / "cleaned.npz", keep, new)
    with np.load(tmp_path / "cleaned.npz") as copy:
        np.testing.assert_array_equal(copy["x"], x[1:])
        assert copy["y"].tolist() == new[1:].tolist()
    assert {path.name for path in found.digests} == {"x.npy", "y.npy"}


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (None, r"--label must be the .npy file with the labels of .*; got None"),
        ("none.npy", "--label must be the .npy file"),
        ("few.npy", r"must hold one label for each of the 12 rows of .*; its shape is \[3\]"),
        ("objects.npy", "objects.npy"),
    ],
)
def test_labels_of_rows_in_a_file_of_their_own(tmp_path, label, message):
    np.save(tmp_path / "x.npy", np.zeros((12, 2)))
    np.save(tmp_path / "few.npy", np.arange(3))
    np.save(tmp_path / "objects.npy", np.array([None] * 12), allow_pickle=True)
    with pytest.raises(ValueError, match=message):
        read_data(tmp_path / "x.npy", label=None if label is None else str(tmp_path / label))


def test_a_file_with_labels_takes_no_other_labels(tmp_path):
    path = save(tmp_path, x=X, y=Y)
    with pytest.raises(
        ValueError, match=r"--label does not apply to .*, which holds its labels as y"
    ):
        read_data(path, label="y.npy")
