"""SVHN, cropped digits: 32 × 32 colour images in two MATLAB files."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ptd_ext.train.data.dataset import DataSet, as_labels, channel_statistics
from ptd_ext.train.data.formats.matlab import read_mat
from ptd_ext.train.data.locate import MissingFileError, find, folders

__all__ = ["load_svhn"]

HOME = "http://ufldl.stanford.edu/housenumbers/"
# The training images have 225 MB.
_MAX_IMAGES = 1 << 30


def load_svhn(root: Path | str | None) -> DataSet:
    """The 73,257 and 26,032 digits [N, 3, 32, 32]; the extra images are not used."""
    places = folders(root, ("svhn", "SVHN"))
    parts = []
    for name in ("train_32x32.mat", "test_32x32.mat"):
        path = find([name], places)
        if path is None:
            raise MissingFileError("svhn", name, places, HOME)
        parts.append(_read(path))
    (images, labels), test = parts
    mean, std = channel_statistics(images)
    names = tuple(str(digit) for digit in range(10))
    return DataSet("svhn", images, labels, *test, 10, names, mean, std)


def _read(path: Path) -> tuple[Tensor, Tensor]:
    arrays = read_mat(path, ("X", "y"), _MAX_IMAGES)
    for name in ("X", "y"):
        if name not in arrays:
            raise ValueError(f"{path}: {name} is missing; it is cut off or no SVHN file.")
    images, labels = arrays["X"], arrays["y"]
    if images.shape[:3] != (32, 32, 3) or images.ndim != 4 or images.dtype != "uint8":
        raise ValueError(
            f"{path}: X must be uint8 [32, 32, 3, n]; got {images.dtype} {list(images.shape)}."
        )
    if sorted(labels.shape) != sorted((1, images.shape[3])):
        raise ValueError(
            f"{path}: y must be [{images.shape[3]}, 1], one label per image; "
            f"got {list(labels.shape)}."
        )
    # MATLAB saves whole numbers as doubles unless told otherwise.
    if labels.dtype.kind == "f" and (labels == labels.round()).all() and (abs(labels) < 256).all():
        labels = labels.astype("int16")
    digits = as_labels(labels.reshape(-1), f"y of {path} (10 is the digit 0)", 1, 10) % 10
    return torch.from_numpy(images).permute(3, 2, 0, 1).contiguous(), digits
