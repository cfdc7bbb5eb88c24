"""SVHN's MATLAB files."""

import numpy as np
import pytest
import torch

from ptd_ext.experiments import datasets as data
from ptd_ext.experiments.datasets.sets.svhn import load_svhn

io = pytest.importorskip("scipy.io")


def write(folder, *, labels=(10, 1, 9), shape=(32, 32, 3), kind=np.uint8, **options):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (*shape, len(labels))).astype(kind)
    folder.mkdir(exist_ok=True)
    for part in ("train", "test"):
        content = {"note": "x", "X": images, "y": np.array(labels, np.uint8)[:, None]}
        io.savemat(folder / f"{part}_32x32.mat", content, **options)
    return images


@pytest.mark.parametrize("do_compression", [True, False])
@pytest.mark.parametrize("below", [".", "svhn", "SVHN"])
def test_load(tmp_path, below, do_compression):
    images = write(tmp_path / below, do_compression=do_compression)
    d = load_svhn(tmp_path)
    assert d.train_inputs.shape == (3, 3, 32, 32)
    assert d.train_inputs.dtype == torch.uint8
    assert d.train_inputs[1, 2, 4, 5] == images[4, 5, 2, 1]
    assert d.train_labels.tolist() == [0, 1, 9]
    assert d.test_labels.dtype == torch.int64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (31, 32, 3)}, r"X must be uint8 \[32, 32, 3, n\]; got uint8 \[31, 32, 3, 3\]"),
        ({"kind": np.float32}, "got single|got float"),
        ({"labels": (11, 1)}, r"y of .*\(10 is the digit 0\) must be 1 to 10; got 11"),
        ({"labels": (0, 1)}, "must be 1 to 10; got 0"),
    ],
)
def test_wrong_content(tmp_path, options, message):
    write(tmp_path, **options)
    with pytest.raises(ValueError, match=message):
        data.load("svhn", tmp_path)


def test_cut_off_and_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train_32x32\.mat.*housenumbers"):
        data.load("svhn", tmp_path)
    write(tmp_path, do_compression=True)
    path = tmp_path / "test_32x32.mat"
    whole = path.read_bytes()
    for size, message in (
        (60, "is cut off, damaged or not a MATLAB 5 file"),
        (2000, "is cut off or damaged"),
        (len(whole) - 9, "is cut off or damaged"),
    ):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=rf"test_32x32\.mat:? {message}"):
            data.load("svhn", tmp_path)
    path.unlink()
    with pytest.raises(data.MissingFileError, match=r"test_32x32\.mat"):
        data.load("svhn", tmp_path)
