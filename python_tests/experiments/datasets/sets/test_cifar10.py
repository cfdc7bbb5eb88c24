"""CIFAR-10 in its three forms, and pickles that must not be run."""

import io
import os
import pickle
import tarfile

import numpy as np
import pytest
import torch

from ptd_ext.experiments import datasets as data
from ptd_ext.experiments.datasets.sets.cifar10 import CLASS_NAMES
from ptd_ext.utils.formats.pickles import read_pickle


def batch(count, seed):
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (count, 3072), dtype=np.uint8)
    return images, random.integers(0, 10, count).tolist()


def pickled(images, labels):
    return pickle.dumps({b"data": images, b"labels": labels, b"batch_label": b"x"}, protocol=2)


def python2_pickled(images, labels):
    """Like the official files: strings of Python 2, and NumPy's module by its old name."""

    def string(text):
        return b"U" + bytes((len(text),)) + text

    def number(value):
        return b"J" + value.to_bytes(4, "little")

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\0t" + string(b"b") + b"tR"
        b"(K\1(" + number(len(images)) + number(3072) + b"tcnumpy\ndtype\n(" + string(b"u1")
        + b"K\0K\1tR(K\3" + string(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\0tbI00\n"
        + b"T" + images.nbytes.to_bytes(4, "little") + images.tobytes() + b"tb"
    )  # fmt: skip
    numbers = b"(" + b"".join(b"K" + bytes((label,)) for label in labels) + b"l"
    return b"\x80\2(" + string(b"data") + array + string(b"labels") + numbers + b"d."


def binary(images, labels):
    return b"".join(bytes((y,)) + x.tobytes() for x, y in zip(images, labels, strict=True))


def files(make, ending=""):
    named = [(f"data_batch_{n}{ending}", batch(4, n)) for n in (10, 2, 1)]
    return {name: make(*b) for name, b in [*named, (f"test_batch{ending}", batch(3, 9))]}


def write(folder, contents):
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def check(d):
    expected = [batch(4, n) for n in (1, 2, 10)]
    assert d.train_inputs.shape == (12, 3, 32, 32)
    assert d.train_inputs.dtype == torch.uint8
    assert (d.train_inputs.flatten(1).numpy() == np.concatenate([x for x, _ in expected])).all()
    assert d.train_labels.tolist() == [label for _, y in expected for label in y]
    assert (d.test_inputs.flatten(1).numpy() == batch(3, 9)[0]).all()
    assert d.class_names == CLASS_NAMES


@pytest.mark.parametrize(
    ("folder", "make", "ending"),
    [
        ("cifar-10-batches-py", pickled, ""),
        ("cifar-10-batches-py", python2_pickled, ""),
        ("cifar10/cifar-10-batches-py", pickled, ""),
        ("cifar-10-batches-bin", binary, ".bin"),
    ],
)
def test_folders(tmp_path, folder, make, ending):
    write(tmp_path / folder, files(make, ending))
    check(data.load("cifar10", tmp_path))
    check(data.load("cifar10", tmp_path / folder))


def test_archive_is_read_in_place(tmp_path):
    path = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {**files(python2_pickled), "../../escape": b"x"}.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    check(data.load("cifar10", tmp_path))
    check(data.load("cifar10", path))
    assert os.listdir(tmp_path) == [path.name]
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(ValueError, match="cut off, damaged or not a tar archive"):
        data.load("cifar10", tmp_path)


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_is_rejected_and_not_run(tmp_path, protocol):
    contents = files(pickled)
    trap = tmp_path / "trap"
    contents["data_batch_2"] = pickle.dumps({b"data": Evil(trap), b"labels": []}, protocol)
    write(tmp_path / "cifar-10-batches-py", contents)
    with pytest.raises(ValueError, match=r"data_batch_2 is rejected: it asks for posix\.mkdir"):
        data.load("cifar10", tmp_path)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02c__builtin__\neval\n(U\x031+1tR.", "asks for __builtin__.eval"),
        (pickle.dumps({"a": np.array([{}], dtype=object)}, 2), "of type 'O8', not of numbers"),
        (b"\x80\x02c_codecs\nencode\n(X\1\0\0\0aX\3\0\0\0rottR.", "is rejected|is cut off"),
        # Attributes of what a name stands for cannot be set.
        (b"\x80\x02c_codecs\nencode\n}U\x01aK\x01sb.", "sets attributes"),
        (pickle.dumps([1], 2), "must hold a dictionary; it holds list"),
        (b"", "cut off, damaged or not a pickle"),
        (pickle.dumps({"a": np.zeros(9)}, 2)[:-20], "cut off, damaged or not a pickle"),
    ],
)
def test_pickles_that_are_not_arrays(content, message):
    with pytest.raises(ValueError, match=message):
        read_pickle(content, "file")


@pytest.mark.parametrize("kind", ["u1", "i4", "<i8", ">i8", ">f4", "f8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back(kind, order):
    array = np.array(np.arange(12).reshape(3, 4), dtype=kind, order=order)
    result = read_pickle(pickle.dumps({"a": array, b"b": [1, "x"]}, protocol=2), "file")
    assert (result["a"] == array).all()
    assert result["a"].dtype == array.dtype
    assert result["b"] == [1, "x"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "test_batch",
            pickled(np.zeros((2, 3072), np.uint8), [1]),
            r"\[1, 3072\].*uint8 \[2, 3072",
        ),
        ("test_batch", pickled(np.zeros((1, 3072)), [1]), "got float64"),
        ("test_batch", pickled(np.zeros((1, 3072), np.uint8), [10]), "0 to 9; got 10"),
        ("test_batch", pickle.dumps({"data": 1}, 2), "'labels' is missing"),
        ("test_batch", python2_pickled(*batch(2, 0))[:-5000], "cut off, damaged or not a pickle"),
    ],
)
def test_wrong_content(tmp_path, name, content, message):
    write(tmp_path / "cifar-10-batches-py", {**files(pickled), name: content})
    with pytest.raises(ValueError, match=message):
        data.load("cifar10", tmp_path)


def test_binary_cut_off(tmp_path):
    contents = files(binary, ".bin")
    contents["test_batch.bin"] = contents["test_batch.bin"][:-1]
    write(tmp_path / "cifar-10-batches-bin", contents)
    with pytest.raises(ValueError, match="3,073 bytes per image; it has 9,218"):
        data.load("cifar10", tmp_path)


def test_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cifar-10-batches-py.*toronto"):
        data.load("cifar10", tmp_path)
    write(tmp_path / "cifar-10-batches-py", {"data_batch_1": pickled(*batch(1, 0))})
    with pytest.raises(data.MissingFileError, match="needs test_batch; looked in"):
        data.load("cifar10", tmp_path)
