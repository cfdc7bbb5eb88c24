"""Digits, .npz files, the arguments of `load`, and DataSet's own checks."""

import io
import zipfile

import numpy as np
import pytest
import torch
from training_cases import quick_settings

from ptd_ext.train import data
from ptd_ext.train.data.problem import load_problem

RANDOM = np.random.default_rng(0)


def save(tmp_path, **arrays):
    np.savez_compressed(tmp_path / "d.npz", **arrays)
    return tmp_path / "d.npz"


def test_digits():
    pytest.importorskip("sklearn")
    one, same, other = (data.load("digits", None, seed=seed) for seed in (0, 0, 1))
    assert one.train_inputs.shape == (1438, 1, 8, 8)
    assert one.test_inputs.shape == (359, 1, 8, 8)
    assert one.train_inputs.dtype == torch.uint8
    assert one.train_inputs.max() == 255
    assert torch.equal(one.train_inputs, same.train_inputs)
    assert not torch.equal(one.train_labels, other.train_labels)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((10, 6, 5), (1, 6, 5)), ((10, 6, 5, 3), (3, 6, 5)), ((10, 3, 6, 5), (3, 6, 5))],
)
def test_images(tmp_path, shape, expected):
    x = RANDOM.integers(0, 256, shape, dtype=np.uint8)
    path = save(tmp_path, x=x, y=np.arange(10) % 3, x_test=x[:4], y_test=np.arange(4) % 3)
    d = data.load("npz", path)
    assert d.train_inputs.shape == (10, *expected)
    assert d.train_inputs.dtype == torch.uint8
    assert d.classes == 3
    assert len(d.mean) == expected[0]
    chosen = x[7, 2, 4, 1] if shape[-1] == 3 else x[7, 1, 2, 4] if len(shape) == 4 else x[7, 2, 4]
    assert d.train_inputs[7, min(1, expected[0] - 1), 2, 4] == chosen
    assert d.clean_labels is None


def test_rows_are_split_by_the_seed(tmp_path):
    x = RANDOM.normal(size=(20, 4))
    path = save(tmp_path, x=x, y=np.arange(20, dtype=np.uint8))
    d = data.load("npz", path, seed=3)
    assert (len(d.train_inputs), len(d.test_inputs)) == (16, 4)
    assert d.train_inputs.dtype == torch.float32
    assert d.mean is None
    assert sorted(d.train_labels.tolist() + d.test_labels.tolist()) == list(range(20))
    assert torch.equal(d.noise_features(), torch.from_numpy(x[d.train_labels]).float())
    assert torch.equal(d.test_labels, data.load("npz", path, seed=3).test_labels)
    assert not torch.equal(d.test_labels, data.load("npz", path, seed=4).test_labels)


def test_float_images_keep_their_values(tmp_path):
    x = RANDOM.normal(size=(9, 3, 8, 8)).astype(">f8")
    d = data.load("npz", save(tmp_path, x=x, y=np.arange(9) % 2, x_test=x, y_test=np.arange(9) % 2))
    assert torch.equal(d.train_inputs, torch.from_numpy(x.astype("f4")))
    assert d.mean == pytest.approx(x.mean((0, 2, 3)).tolist(), abs=1e-6)
    assert d.std == pytest.approx(x.std((0, 2, 3)).tolist(), abs=1e-6)


def test_clean_labels(tmp_path):
    clean = np.arange(20) % 5
    x = np.stack([clean, clean], 1).astype(np.float32)
    d = data.load("npz", save(tmp_path, x=x, y=np.roll(clean, 1), y_clean=clean))
    assert d.noisy
    assert torch.equal(d.clean_labels, d.train_inputs[:, 0].long())
    assert torch.equal(d.test_labels, d.test_inputs[:, 0].long())
    assert torch.equal((d.clean_labels - 1) % 5, d.train_labels)


X, Y = np.zeros((4, 3)), np.arange(4) % 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": Y}, "must hold x and y; it holds y"),
        ({"x": X, "y": Y, "x_test": X}, "both x_test and y_test, or neither"),
        ({"x": X, "y": Y[:3]}, "x has 4 samples, y 3 labels"),
        ({"x": X, "y": Y, "y_clean": Y[:2]}, "y_clean 2 labels"),
        ({"x": X, "y": Y - 1}, "y of .* must be 0 to 99999; got -1"),
        ({"x": X, "y": Y * 0.5}, r"y of .* whole numbers \[N\]; got float64"),
        ({"x": X[..., None].astype(int), "y": Y}, "x of .* must be uint8 images.*; got int64"),
        ({"x": X, "y": Y, "ids": Y}, "ids of .* different from each other"),
        ({"x": X, "y": Y, "ids": Y[:3]}, r"ids of .* must be whole numbers or texts \[4\]"),
        (
            {"x": X, "y": Y, "ids": np.arange(4), "x_test": X, "y_test": Y},
            r"ids_test of .* must be whole numbers or texts \[4\]; got none",
        ),
        ({"x": X, "y": Y, "class_names": np.array(["a"])}, "name for each of 2 classes; got 1"),
        ({"x": X, "y": Y, "class_names": Y}, "class_names of .* must be texts"),
        ({"x": X, "y": np.array(list("abab")), "y_clean": Y}, "y_clean of .* must be texts"),
        (
            {"x": X, "y": np.array(list("abac")), "class_names": np.array(["a", "b"])},
            "y of .* holds c, not among class_names",
        ),
        ({"x": np.array([list("abc")] * 4), "y": Y}, "must hold numbers; x holds <U1"),
        ({"x": X * np.nan, "y": Y}, "must be finite"),
        ({"x": X, "y": Y, "x_test": X[:, :2], "y_test": Y}, r"shape \[3\]; got \[2\]"),
        ({"x": X, "y": np.array([{}] * 4)}, "y holds Python objects, which could run code"),
    ],
)
def test_wrong_content(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=message):
        data.load("npz", save(tmp_path, **arrays))


def test_damaged(tmp_path):
    path = save(tmp_path, x=X, y=Y)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"cut off, damaged or not a \.npz"):
        data.load("npz", path)
    with pytest.raises(FileNotFoundError, match="is not a file"):
        data.load("npz", tmp_path)
    with pytest.raises(ValueError, match="npz needs root"):
        data.load("npz", None)


def test_a_shape_that_lies_reserves_nothing(tmp_path):
    lie = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**14, 3)}
    np.lib.format.write_array_header_1_0(lie, header)
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("x.npy", lie.getvalue())
        archive.writestr("y.npy", b"")
    with pytest.raises(ValueError, match=r"x is .*, more than its"):
        data.load("npz", tmp_path / "d.npz")


def test_arguments():
    with pytest.raises(ValueError, match=r"one of digits, mnist, .*; got 'imagenet'"):
        data.load("imagenet", None)
    with pytest.raises(ValueError, match="headers has no meaning for digits; got 'keep'"):
        data.load("digits", None, headers="keep")
    assert (
        *("digits", "mnist", "fashion_mnist", "svhn", "cifar10"),
        *("news", "clothing1m", "npz", "image_folder"),
    ) == data.NAMES


def test_labels_and_ids_may_be_texts(tmp_path):
    names = np.array(["cat", "dog", "dog", "ant"] * 5)
    ids = np.array([f"row {n}" for n in range(20)])
    x = np.arange(40).reshape(20, 2)
    d = data.load("npz", save(tmp_path, x=x, y=names, ids=ids))
    assert d.class_names == ("ant", "cat", "dog")
    assert d.row_names.tolist() == ids.tolist()
    rows = torch.cat([d.train_rows, d.test_rows])
    labels = torch.cat([d.train_labels, d.test_given])
    inputs = torch.cat([d.train_inputs, d.test_inputs])
    assert [d.class_names[label] for label in labels] == names[rows].tolist()
    assert torch.equal(inputs, torch.from_numpy(x)[rows].float())


def test_numbers_may_have_class_names(tmp_path):
    d = data.load("npz", save(tmp_path, x=X, y=Y, class_names=np.array(["no", "yes", "maybe"])))
    assert d.class_names == ("no", "yes", "maybe")
    assert d.classes == 3


def test_rows_of_a_test_part_are_numbered_on(tmp_path):
    d = data.load("npz", save(tmp_path, x=X, y=Y, x_test=X[:2], y_test=Y[:2]))
    assert d.train_rows.tolist() == [0, 1, 2, 3]
    assert d.test_rows.tolist() == [4, 5]
    assert not d.clean_test


def test_texts_that_are_no_characters(tmp_path):
    path = save(tmp_path, x=X, y=np.array(list("abab")))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["y.npy"] = members["y.npy"].replace("abab".encode("utf-32-le"), b"\xff" * 16)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="bytes that are no characters"):
        data.load("npz", path)


def test_two_samples_are_enough_to_train_on(tmp_path):
    path = tmp_path / "few.npz"
    for samples in (3, 2):
        np.savez(
            path, x=np.eye(samples, 4), y=np.arange(samples) % 2, x_test=np.eye(2, 4), y_test=[0, 1]
        )
        settings = quick_settings(path, "CE", noise="none", validation=0.3)
        if samples == 3:
            assert load_problem(settings).train_size == 2
            continue
        with pytest.raises(ValueError, match="too few samples to train on: 1 and 1 of 2"):
            load_problem(settings)
