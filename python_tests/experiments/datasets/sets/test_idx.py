"""MNIST and Fashion-MNIST in idx files."""

import gzip
import struct

import numpy as np
import pytest
import torch

from ptd_ext.experiments import datasets as data
from ptd_ext.experiments.datasets.sets import idx


def idx_bytes(array):
    return (
        bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + bytes(array)
    )


def write(folder, *, packed=False, dot=False, train=7, test=3):
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", train), ("t10k", test)):
        arrays[part] = random.integers(0, 256, (count, 4, 5), dtype=np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 10
        for kind, array in (("images", arrays[part]), ("labels", labels)):
            content = idx_bytes(array)
            name = f"{part}-{kind}{'.' if dot else '-'}idx{array.ndim}-ubyte"
            if packed:
                name, content = name + ".gz", gzip.compress(content)
            (folder / name).write_bytes(content)
    return arrays


@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("mnist", "."),
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion_mnist", "FashionMNIST/raw"),
    ],
)
@pytest.mark.parametrize(("packed", "dot"), [(True, False), (False, False), (False, True)])
def test_layouts(tmp_path, name, below, packed, dot):
    arrays = write(tmp_path / below, packed=packed, dot=dot)
    d = data.load(name, tmp_path)
    assert d.train_inputs.dtype == torch.uint8
    assert d.train_inputs.shape == (7, 1, 4, 5)
    assert (d.train_inputs[:, 0].numpy() == arrays["train"]).all()
    assert (d.test_inputs[:, 0].numpy() == arrays["t10k"]).all()
    assert d.test_labels.tolist() == [0, 1, 2]
    assert d.n_classes == 10
    assert not d.noisy
    assert d.moments is None


def test_noise_features_are_raw_pixels(tmp_path):
    arrays = write(tmp_path)
    features = data.load("mnist", tmp_path).noise_features()
    assert features.dtype == torch.float32
    assert (features.numpy() == arrays["train"].reshape(7, 20)).all()


def test_missing_files_are_located(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte .*MNIST/raw.*yann") as e:
        data.load("mnist", tmp_path)
    assert str(tmp_path / "mnist") in str(e.value)
    with pytest.raises(data.MissingFileError, match="no folder, as none was given"):
        data.load("mnist", None)


def test_fashion_mnist_falls_back_to_debians_folder(tmp_path, monkeypatch):
    write(tmp_path / "debian", packed=True)
    monkeypatch.setattr(idx, "DEBIAN", tmp_path / "debian")
    for root in (None, tmp_path / "nothing"):
        assert len(data.load("fashion_mnist", root).train_inputs) == 7
    monkeypatch.setattr(idx, "DEBIAN", tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"nowhere.*zalandoresearch"):
        data.load("fashion_mnist", None)


def test_files_of_two_folders_are_not_mixed(tmp_path):
    write(tmp_path / "mnist")
    write(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match="t10k-labels-idx1-ubyte"):
        data.load("mnist", tmp_path)


@pytest.mark.parametrize("packed", [True, False])
def test_cut_off(tmp_path, packed):
    write(tmp_path, packed=packed)
    path = tmp_path / f"train-images-idx3-ubyte{'.gz' if packed else ''}"
    whole = path.read_bytes()
    for size in (0, 7, 30, len(whole) - 9):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"train-images.* is cut off"):
            data.load("mnist", tmp_path)


def test_cut_off_inside_the_packed_file(tmp_path):
    write(tmp_path, packed=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-5]))
    with pytest.raises(ValueError, match="7 × 4 × 5 bytes, 135 follow"):
        data.load("mnist", tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-images-idx3-ubyte", b"\0\0\x0d\3" + bytes(12), "begins with 00000803; .* 00000d03"),
        ("train-images-idx3-ubyte", b"\0\0\x08\3" + b"\xff" * 12, "declares .* bytes, more than"),
        ("train-labels-idx1-ubyte", idx_bytes(np.zeros(6, np.uint8)), "7 images, but .* 6 labels"),
        ("train-labels-idx1-ubyte", idx_bytes(np.full(7, 10, np.uint8)), "0 to 9; got 10"),
    ],
)
def test_wrong_content(tmp_path, name, content, message):
    write(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        data.load("mnist", tmp_path)


def test_a_header_that_lies_reserves_nothing(tmp_path):
    write(tmp_path, packed=True)
    lie = bytes((0, 0, 8, 3)) + struct.pack(">3I", 700_000, 32, 32) + bytes(100)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(lie))
    with pytest.raises(ValueError, match="100 follow"):
        data.load("mnist", tmp_path)
