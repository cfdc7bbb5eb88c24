"""SVHN, cropped digits: 32 × 32 colour images in two MATLAB files."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ptd_ext.train.data.dataset import DataSet, channel_statistics
from ptd_ext.train.data.locate import MissingFileError, check_size, find, folders

__all__ = ["load_svhn"]

HOME = "http://ufldl.stanford.edu/housenumbers/"


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
    try:
        from scipy import io
    except ModuleNotFoundError:
        raise ModuleNotFoundError('svhn needs scipy: pip install "ptd_ext[train]".') from None
    try:
        declared = {name: (shape, kind) for name, shape, kind in io.whosmat(path)}
        missing = {"X", "y"} - set(declared)
        if missing:
            raise _UnexpectedError(f"{min(missing)} is missing; it is cut off or no SVHN file")
        (shape, kind), (label_shape, _) = declared["X"], declared["y"]
        if shape[:3] != (32, 32, 3) or len(shape) != 4 or kind != "uint8":
            raise _UnexpectedError(f"X must be uint8 [32, 32, 3, n]; got {kind} {list(shape)}")
        if sorted(label_shape) != sorted((1, shape[3])):
            raise _UnexpectedError(
                f"y must be [{shape[3]}, 1], one label per image; got {list(label_shape)}"
            )
        check_size(32 * 32 * 3 * shape[3], path)
        content = io.loadmat(path, variable_names=["X", "y"])
        images = torch.from_numpy(content["X"]).permute(3, 2, 0, 1).contiguous()
        labels = torch.from_numpy(content["y"].reshape(-1).astype("int64"))
    except _UnexpectedError as error:
        raise ValueError(f"{path}: {error}.") from None
    # scipy raises whatever the damage makes it stumble over.
    except Exception as error:
        raise ValueError(f"{path} is damaged or no MATLAB 5 file: {error}.") from error
    if len(labels) and (labels.min() < 1 or labels.max() > 10):
        bad = int(labels.min() if labels.min() < 1 else labels.max())
        raise ValueError(f"{path} must hold labels 1 to 10, 10 being the digit 0; got {bad}.")
    return images, labels % 10


class _UnexpectedError(ValueError):
    """The file can be read, but is not SVHN's."""
