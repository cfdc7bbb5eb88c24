"""Clothing1M: a million images from shops, labelled by the words around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.preprocessing import IMAGENET
from ptd_ext.experiments.datasets.dataset import DataSet
from ptd_ext.experiments.datasets.locate import find, folders, require
from ptd_ext.utils.bounded_files import read_lines, shortened

HOME = "https://github.com/Cysu/noisy_label"
CLASS_NAMES = (
    *("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker"),
    *("Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear"),
)

_LABELS = {str(label): label for label in range(len(CLASS_NAMES))}
# The names and labels of the million images have 45 MB.
_MAX_FILE, _MAX_LINE = 1 << 28, 1 << 12


def load_clothing1m(root: Path | str | None, size: int) -> DataSet:
    """The noisy training images with their noisy labels; the clean test images with clean ones.

    The 50,000 clean training and 14,000 clean validation images are not used.
    """
    places = folders(root, ("clothing1m", "clothing1M", "Clothing1M"))
    first = "noisy_train_key_list.txt"
    folder = require("clothing1m", first, places, HOME).parent
    names = (first, "noisy_label_kv.txt", "clean_test_key_list.txt", "clean_label_kv.txt")
    keys, labels, test_keys, test_labels = (
        require("clothing1m", name, [folder], HOME) for name in names
    )
    return DataSet(
        "clothing1m",
        *_part(keys, labels, size),
        *_part(test_keys, test_labels, size),
        class_names=_class_names(folder),
        noisy=True,
        moments=IMAGENET,  # its network is made for these
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
            raise ValueError(f"{path}, line {number}, must be UTF-8 text; it is not.") from None
        if text:
            yield number, text


def _part(keys: Path, label_file: Path, size: int) -> tuple[ImageFiles, Tensor]:
    labels, folder = _labels(label_file), keys.parent
    found = bytearray()

    def names() -> Iterator[str]:
        for number, key in _lines(keys):
            if key.startswith("/") or ".." in key.split("/"):
                raise ValueError(
                    f"{keys}, line {number}, names a file elsewhere: {shortened(key)!r}."
                )
            if key not in labels:
                raise ValueError(
                    f"{keys}, line {number}: {label_file} has no label for {shortened(key)}."
                )
            found.append(labels[key])
            yield key

    files = ImageFiles(folder, names(), size)
    if not len(files):
        raise ValueError(f"{keys} must name images; it is empty.")
    # Only the first file is looked for, as a million would take minutes.
    require("clothing1m", files.name(0), [folder], HOME)
    return files, torch.tensor(list(found), dtype=torch.int64)


def _class_names(folder: Path) -> tuple[str, ...]:
    path = find(["category_names_eng.txt"], [folder])
    if path is None:
        return CLASS_NAMES
    names = tuple(name for _, name in _lines(path))
    if len(names) != len(CLASS_NAMES):
        raise ValueError(f"{path} must name {len(CLASS_NAMES)} classes; it names {len(names)}.")
    return names
