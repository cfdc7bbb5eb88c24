"""CIFAR-10: 32 × 32 colour images, in the python version (also as archive) or the binary one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ptd_ext.train.data.dataset import DataSet, as_labels, channel_statistics
from ptd_ext.train.data.formats.pickles import read_pickle
from ptd_ext.train.data.formats.tar import TarLimits, read_tar
from ptd_ext.train.data.locate import MissingFileError
from ptd_ext.utils.bounded_files import read_bytes

__all__ = ["load_cifar10"]

HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
CLASS_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
ARCHIVE = "cifar-10-python.tar.gz"
_BATCH = re.compile(r"data_batch_([0-9]{1,4})(\.bin)?")
_TEST = re.compile(r"test_batch(\.bin)?")
_PIXELS = 3 * 32 * 32
# The official batches have 31 MB each and 186 MB in all, in an archive of ten members.
_MAX_BATCH, _MAX_TOTAL, _MAX_MEMBERS = 1 << 28, 1 << 30, 1000


def load_cifar10(root: Path | str | None) -> DataSet:
    """Up to 50,000 and 10,000 images [N, 3, 32, 32], from as many batches as there are."""
    source, places = _source(root)
    if source is None:
        wanted = f"cifar-10-batches-py/, cifar-10-batches-bin/ or {ARCHIVE}"
        raise MissingFileError("cifar10", wanted, places, HOME)
    batches: dict[int, tuple[Tensor, Tensor]] = {}
    test = None
    for name, data in _contents(source):
        where = source / name
        if match := _BATCH.fullmatch(name):
            batches[int(match[1])] = _read(data, where)
        else:
            test = _read(data, where)
    if not batches:
        raise MissingFileError("cifar10", "data_batch_1", [source], HOME)
    if test is None:
        raise MissingFileError("cifar10", "test_batch", [source], HOME)
    # Batches are sorted by number, which is the order of CIFAR-10N's labels.
    ordered = [batches[number] for number in sorted(batches)]
    images, labels = (torch.cat(part) for part in zip(*ordered, strict=True))
    mean, std = channel_statistics(images)
    return DataSet("cifar10", images, labels, *test, 10, CLASS_NAMES, mean, std)


def _source(root: Path | str | None) -> tuple[Path | None, list[Path]]:
    """The folder or archive with the batches, and every place that was looked at."""
    if root is None:
        return None, []
    root = Path(root)
    if root.is_file():
        return root, [root]
    places = []
    for folder in (root, root / "cifar10", root / "cifar-10", root / "CIFAR10"):
        places += [folder, folder / "cifar-10-batches-py", folder / "cifar-10-batches-bin"]
    for place in places:
        if any((place / f"data_batch_1{end}").is_file() for end in ("", ".bin")):
            return place, places
    archives = [place / ARCHIVE for place in places if (place / ARCHIVE).is_file()]
    return (archives[0] if archives else None), places


def _contents(source: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every batch; an archive is read where it is."""
    if source.is_dir():
        left = _MAX_TOTAL
        names = sorted(path.name for path in source.iterdir() if path.is_file())
        plain = {name for name in names if not name.endswith(".bin")}
        for name in names:
            # If both versions lie in one folder, one of them is enough.
            if _is_batch(name) and not (name.endswith(".bin") and name[:-4] in plain):
                data = read_bytes(source / name, min(_MAX_BATCH, left))
                left -= len(data)
                yield name, data
        return
    limits = TarLimits(_MAX_BATCH, _MAX_TOTAL, _MAX_MEMBERS)
    for name, data in read_tar(source, lambda name: _is_batch(name.rpartition("/")[2]), limits):
        yield name.rpartition("/")[2], data


def _is_batch(name: str) -> bool:
    return bool(_BATCH.fullmatch(name) or _TEST.fullmatch(name))


def _read(data: bytes, path: Path) -> tuple[Tensor, Tensor]:
    if path.suffix == ".bin":
        if not data or len(data) % (1 + _PIXELS):
            raise ValueError(
                f"{path} is cut off or damaged: it must hold {1 + _PIXELS:,} bytes per image; "
                f"it has {len(data):,}."
            )
        rows = np.frombuffer(data, np.uint8).reshape(-1, 1 + _PIXELS)
        given, images = rows[:, 0], rows[:, 1:]
    else:
        content = read_pickle(data, path)
        for key in ("data", "labels"):
            if key not in content:
                raise ValueError(f"{path} must hold 'data' and 'labels'; {key!r} is missing.")
        images, given = content["data"], content["labels"]
    labels = as_labels(given, f"The labels of {path}", 0, 9)
    shape, kind = getattr(images, "shape", ()), getattr(images, "dtype", type(images).__name__)
    if kind != np.uint8 or shape != (len(labels), _PIXELS):
        raise ValueError(
            f"{path} must hold uint8 data [{len(labels)}, {_PIXELS}], one row per label; "
            f"got {kind} {list(shape)}."
        )
    return torch.from_numpy(images.reshape(-1, 3, 32, 32).copy()), labels
