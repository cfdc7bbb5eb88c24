"""Clothing1M: a million images from shops, labelled by the words around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from ptd_ext.train.data.dataset import DataSet
from ptd_ext.train.data.image_files import CROP, ImageFiles
from ptd_ext.train.data.locate import MissingFileError, find, folders
from ptd_ext.utils.bounded_files import read_lines, shortened

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "load_clothing1m"]

HOME = "https://github.com/Cysu/noisy_label"
# The normalisation that pretrained ImageNet networks expect.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
CLASS_NAMES = (
    *("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker"),
    *("Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear"),
)

_LABELS = {str(label): label for label in range(len(CLASS_NAMES))}
# The names and labels of the million images have 45 MB.
_MAX_FILE, _MAX_LINE = 1 << 28, 1 << 12


def load_clothing1m(root: Path | str | None, size: int | None) -> DataSet:
    """The noisy training images with their noisy labels; the clean test images with clean ones.

    The 50,000 clean training and 14,000 clean validation images are not used.
    """
    places = folders(root, ("clothing1m", "clothing1M", "Clothing1M"))
    key_list = find(["noisy_train_key_list.txt"], places)
    if key_list is None:
        raise MissingFileError("clothing1m", "noisy_train_key_list.txt", places, HOME)
    folder = key_list.parent
    files = {}
    for name in (
        "noisy_train_key_list.txt",
        "noisy_label_kv.txt",
        "clean_test_key_list.txt",
        "clean_label_kv.txt",
    ):
        files[name] = folder / name
        if not files[name].is_file():
            raise MissingFileError("clothing1m", name, [folder], HOME)
    size = CROP if size is None else size

    def part(kind: str, split: str) -> tuple[ImageFiles, Tensor]:
        labels = _labels(files[f"{kind}_label_kv.txt"])
        keys = files[f"{kind}_{split}_key_list.txt"]
        return _part(keys, labels, folder, files[f"{kind}_label_kv.txt"], size)

    return DataSet(
        "clothing1m",
        *part("noisy", "train"),
        *part("clean", "test"),
        classes=len(CLASS_NAMES),
        class_names=_class_names(folder),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        noisy=True,
    )


def _labels(path: Path) -> dict[str, int]:
    labels = {}
    for number, line in _lines(path):
        key, _, label = line.rpartition(" ")
        if not key or label not in _LABELS:
            raise ValueError(
                f"{path}, line {number}, must be an image's name and a label 0 to "
                f"{len(CLASS_NAMES) - 1}; got {shortened(line)!r}."
            )
        labels[key] = _LABELS[label]
    return labels


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of every line that is not empty."""
    for number, line in read_lines(path, _MAX_FILE, _MAX_LINE):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise ValueError(f"{path}, line {number}, must be text in UTF-8; it is not.") from None
        if text:
            yield number, text


def _part(
    keys: Path, labels: dict[str, int], folder: Path, label_file: Path, size: int
) -> tuple[ImageFiles, Tensor]:
    found = bytearray()

    def names() -> Iterator[str]:
        for number, key in _lines(keys):
            if key.startswith("/") or ".." in key.split("/"):
                raise ValueError(
                    f"{keys}, line {number}, names a file elsewhere: {shortened(key)!r}."
                )
            if key not in labels:
                raise ValueError(
                    f"{keys}, line {number}: {label_file} has no label of {shortened(key)}."
                )
            found.append(labels[key])
            yield key

    files = ImageFiles(folder, names(), size)
    if not len(files):
        raise ValueError(f"{keys} must name images; it is empty.")
    # Only the first file is looked for, as a million would take minutes.
    if not (folder / files.name(0)).is_file():
        raise MissingFileError("clothing1m", files.name(0), [folder], HOME)
    return files, torch.tensor(list(found), dtype=torch.int64)


def _class_names(folder: Path) -> tuple[str, ...]:
    path = folder / "category_names_eng.txt"
    if not path.is_file():
        return CLASS_NAMES
    names = tuple(name for _, name in _lines(path))
    if len(names) != len(CLASS_NAMES):
        raise ValueError(f"{path} must name {len(CLASS_NAMES)} classes; it names {len(names)}.")
    return names
