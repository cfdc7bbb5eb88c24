"""CIFAR-10: 32 × 32 colour images, in the python version (also as archive) or the binary one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ptd_ext.experiments.datasets.dataset import DataSet, as_labels
from ptd_ext.experiments.datasets.locate import MissingFileError
from ptd_ext.utils.bounded_files import read_files
from ptd_ext.utils.formats.pickles import read_pickle
from ptd_ext.utils.formats.tar import read_tar

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
    return DataSet("cifar10", images, labels, *test, CLASS_NAMES)


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
        found = [path for path in source.iterdir() if path.is_file() and _is_batch(path.name)]
        # If both versions lie in one folder, one of them is enough.
        paths = [
            path for path in found if path.suffix != ".bin" or path.with_suffix("") not in found
        ]
        for path, data in read_files(sorted(paths), _MAX_BATCH, _MAX_TOTAL):
            yield path.name, data
        return
    limits = (_MAX_BATCH, _MAX_TOTAL, _MAX_MEMBERS)
    for name, data in read_tar(source, lambda name: _is_batch(name.rpartition("/")[2]), *limits):
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
        if missing := {"data", "labels"} - content.keys():
            raise ValueError(f"{path} must hold 'data' and 'labels'; {min(missing)!r} is missing.")
        images, given = content["data"], content["labels"]
    labels = as_labels(given, f"The labels of {path}", 0, 9)
    shape, kind = getattr(images, "shape", ()), getattr(images, "dtype", type(images).__name__)
    if kind != np.uint8 or shape != (len(labels), _PIXELS):
        raise ValueError(
            f"{path} must hold uint8 data [{len(labels)}, {_PIXELS}], one row per label; "
            f"got {kind} {list(shape)}."
        )
    return torch.from_numpy(images.reshape(-1, 3, 32, 32).copy()), labels
