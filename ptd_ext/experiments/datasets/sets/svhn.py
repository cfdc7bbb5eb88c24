"""SVHN, cropped digits: 32 × 32 colour images in two MATLAB files."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ptd_ext.experiments.datasets.dataset import DataSet, as_labels
from ptd_ext.experiments.datasets.locate import folders, require
from ptd_ext.utils.formats.matlab import read_mat

HOME = "http://ufldl.stanford.edu/housenumbers/"
# The training images have 225 MB.
_MAX_IMAGES = 1 << 30


def load_svhn(root: Path | str | None) -> DataSet:
    """The 73,257 and 26,032 digits [N, 3, 32, 32]; the extra images are not used."""
    places = folders(root, ("svhn", "SVHN"))
    parts = []
    for name in ("train_32x32.mat", "test_32x32.mat"):
        parts.append(_read(require("svhn", name, places, HOME)))
    names = tuple(str(digit) for digit in range(10))
    return DataSet("svhn", *parts[0], *parts[1], names)


def _read(path: Path) -> tuple[Tensor, Tensor]:
    arrays = read_mat(path, ("X", "y"), _MAX_IMAGES)
    if missing := {"X", "y"} - arrays.keys():
        raise ValueError(f"{path}: {min(missing)} is missing; it is cut off or not an SVHN file.")
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
    # MATLAB saves integers as doubles by default.
    if labels.dtype.kind == "f" and (labels == labels.round()).all() and (abs(labels) < 256).all():
        labels = labels.astype("int16")
    digits = as_labels(labels.reshape(-1), f"y of {path} (10 is the digit 0)", 1, 10) % 10
    return torch.from_numpy(images).permute(3, 2, 0, 1).contiguous(), digits
