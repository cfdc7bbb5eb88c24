"""MNIST and Fashion-MNIST: images and labels in idx files, plain or gzip."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ptd_ext.experiments.datasets.dataset import DataSet, as_labels
from ptd_ext.experiments.datasets.locate import MissingFileError, find, folders
from ptd_ext.utils.bounded_files import ContentError, check_size, read_stream, reading

# The folder of Debian's package dataset-fashion-mnist.
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
FASHION_NAMES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
_UINT8 = 0x08


def load_mnist(root: Path | str | None) -> DataSet:
    """The 60,000 and 10,000 handwritten digits [N, 1, 28, 28]."""
    places = folders(root, ("mnist", "MNIST", "MNIST/raw", "raw"))
    home = "http://yann.lecun.com/exdb/mnist/"
    return _load("mnist", places, home, tuple(str(digit) for digit in range(10)))


def load_fashion_mnist(root: Path | str | None) -> DataSet:
    """The 60,000 and 10,000 pictures of clothes [N, 1, 28, 28]."""
    below = ("fashion_mnist", "fashion-mnist", "FashionMNIST", "FashionMNIST/raw", "raw")
    home = "https://github.com/zalandoresearch/fashion-mnist"
    return _load("fashion_mnist", [*folders(root, below), DEBIAN], home, FASHION_NAMES)


def read_idx(path: Path, dimensions: int) -> Tensor:
    """The uint8 tensor of an idx file with that many dimensions."""
    size = path.stat().st_size
    with (
        reading(path, "an idx file"),
        gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file,
    ):
        header = file.read(4 + 4 * dimensions)
        if len(header) < 4 + 4 * dimensions:
            raise ContentError("is cut off: it ends within its header")
        magic = bytes((0, 0, _UINT8, dimensions))
        if header[:4] != magic:
            raise ContentError(
                f"must be an idx file of bytes with {dimensions} dimensions, which "
                f"begins with {magic.hex()}; it begins with {header[:4].hex()}"
            )
        shape = [int(n) for n in np.frombuffer(header, ">u4", offset=4)]
        wanted = int(np.prod(shape, dtype=object))
        check_size(wanted, path)
        if path.suffix != ".gz" and size != len(header) + wanted:
            raise _wrong_length(shape, size - len(header))
        data = read_stream(file, wanted)
        # The end of a .gz is where its checksum is compared.
        found = len(data) + len(file.read(1))
        if found != wanted:
            raise _wrong_length(shape, found)
    values = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0).byte()
    return values.reshape(shape)


def _wrong_length(shape: list[int], found: int) -> ContentError:
    return ContentError(
        f"is cut off or damaged: its header declares {' × '.join(map(str, shape))} bytes, "
        f"{'more follow' if found > np.prod(shape, dtype=object) else f'{found:,} follow'}"
    )


def _load(name: str, places: list[Path], home: str, class_names: tuple[str, ...]) -> DataSet:
    # Images and labels of both parts must come from one folder: files of two data sets have the
    # same names.
    held = [place for place in places if find(_names("train", "images"), [place])][:1] or places
    parts = []
    for part in ("train", "t10k"):
        files = []
        for kind in ("images", "labels"):
            names = _names(part, kind)
            path = find(names, held)
            if path is None:
                raise MissingFileError(name, f"{names[0]} (or .gz)", held, home)
            files.append(path)
        images, labels = read_idx(files[0], 3), read_idx(files[1], 1)
        if len(images) != len(labels):
            raise ValueError(
                f"{files[0]} has {len(images):,} images, but {files[1]} {len(labels):,} labels."
            )
        if 0 in images.shape[1:]:
            raise ValueError(f"{files[0]} must hold images; theirs are {list(images.shape[1:])}.")
        labels = as_labels(labels, f"The labels of {files[1]}", 0, len(class_names) - 1)
        parts.append((images.unsqueeze(1), labels))
    return DataSet(name, *parts[0], *parts[1], class_names)


def _names(part: str, kind: str) -> list[str]:
    dimensions = 3 if kind == "images" else 1
    plain = [f"{part}-{kind}{dash}idx{dimensions}-ubyte" for dash in "-."]
    return [name + end for name in plain for end in ("", ".gz")]
