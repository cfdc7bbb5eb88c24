"""CIFAR-10N and other files of noisy labels."""

import numpy as np
import pytest
import torch

from ptd_ext.experiments import datasets as data
from ptd_ext.experiments.datasets.sets.human_labels import HUMAN_LABELS

SAMPLES = 6


class Evil:
    def __reduce__(self):
        return print, ("run",)


@pytest.fixture
def root(tmp_path):
    """Binary CIFAR-10 of six black images, labels 0 … 5."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    rows = np.zeros((SAMPLES, 3073), np.uint8)
    rows[:, 0] = range(SAMPLES)
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (folder / name).write_bytes(rows.tobytes())
    return tmp_path


def tables(extra=0):
    clean = np.arange(SAMPLES + extra) % 10
    return {
        "clean_label": clean,
        "worse_label": (clean + 1) % 10,
        "aggre_label": clean,
        "random_label1": (clean + 2) % 10,
    }


@pytest.mark.parametrize("form", ["pt", "legacy", "tensors", "npz"])
def test_cifar10n(root, form):
    path = root / ("labels.npz" if form == "npz" else "CIFAR-10_human.pt")
    # More labels than there are images: the first ones are those of the first batches.
    content = tables(extra=4)
    if form == "npz":
        np.savez(path, **content)
    elif form == "tensors":
        torch.save({name: torch.from_numpy(value) for name, value in content.items()}, path)
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "pt")
    d = data.load("cifar10", root, labels_file=path)
    assert d.noisy
    assert d.train_labels.tolist() == [1, 2, 3, 4, 5, 6]
    assert d.clean_labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert d.test_labels.tolist() == [0, 1, 2, 3, 4, 5]
    d = data.load("cifar10", root, labels_file=path, human_labels="random_label1")
    assert d.train_labels.tolist() == [2, 3, 4, 5, 6, 7]


def test_file_of_numpy_1(root):
    path = root / "CIFAR-10_human.pt"
    torch.save(tables(), path)
    # The names have different lengths, which a pickle of protocol 2 does not count.
    import zipfile

    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content.replace(b"numpy._core.", b"numpy.core."))
    assert data.load("cifar10", root, labels_file=path).train_labels.tolist() == [1, 2, 3, 4, 5, 6]


def test_npy(root):
    np.save(root / "mine.npy", np.full(SAMPLES, 7, np.int32))
    d = data.load("cifar10", root, labels_file=root / "mine.npy")
    assert d.train_labels.tolist() == [7] * SAMPLES
    assert d.noisy


def test_another_order_is_noticed(root):
    content = tables()
    content["clean_label"] = content["clean_label"][::-1].copy()
    torch.save(content, root / "human.pt")
    with pytest.raises(
        ValueError, match=r"other data.* for 6 of 6 samples, first .* 0 \(5, not 0\)"
    ):
        data.load("cifar10", root, labels_file=root / "human.pt")


def test_code_in_the_file_is_not_run(root, capsys):
    torch.save({**tables(), "more": Evil()}, root / "human.pt")
    with pytest.raises(ValueError, match=r"human\.pt is rejected: it asks for .*print"):
        data.load("cifar10", root, labels_file=root / "human.pt")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(5, np.int64), r"6 training samples; got \[5\]"),
        (np.zeros(6), "integers .*; got float64"),
        (np.full(6, 10), "0 to 9; got 10"),
        (np.full(6, -1), "0 to 9; got -1"),
    ],
)
def test_wrong_labels(root, labels, message):
    np.save(root / "mine.npy", labels)
    with pytest.raises(ValueError, match=message):
        data.load("cifar10", root, labels_file=root / "mine.npy")


def test_other_mistakes(root):
    with pytest.raises(FileNotFoundError, match=r"none\.pt.*noisylabels"):
        data.load("cifar10", root, labels_file=root / "none.pt")
    torch.save(tables(), root / "human.pt")
    with pytest.raises(ValueError, match=r"aggre_label, clean_label, random_label1.*got 'worst'"):
        data.load("cifar10", root, labels_file=root / "human.pt", human_labels="worst")
    with pytest.raises(ValueError, match="human_labels must come with labels_file"):
        data.load("cifar10", root, human_labels=HUMAN_LABELS[1])
    (root / "human.pt").write_bytes((root / "human.pt").read_bytes()[:300])
    with pytest.raises(ValueError, match="cut off, damaged or not a file of torch"):
        data.load("cifar10", root, labels_file=root / "human.pt")
