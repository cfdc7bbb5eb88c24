"""Labels given by people, with their mistakes: CIFAR-10N, and label files of the user."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from torch import Tensor

from ptd_ext.experiments.datasets.dataset import DataSet, as_labels
from ptd_ext.experiments.datasets.locate import require
from ptd_ext.utils.bounded_files import check_size, shortened
from ptd_ext.utils.formats.npy import read_npy, read_npz
from ptd_ext.utils.formats.torch_files import read_torch

HOME = "http://noisylabels.com"
HUMAN_LABELS = ("aggre_label", "worse_label", "random_label1", "random_label2", "random_label3")
CLEAN = "clean_label"
# CIFAR-10N's has 3 MB.
_MAX_FILE = 1 << 28


def with_labels(data: DataSet, path: Path | str, which: str | None) -> DataSet:
    """Replace the training labels by those of a file; the old ones become the clean labels.

    Labels are in the order of the training samples. Where the data set has fewer, as CIFAR-10 with
    some of its batches has, the first labels of the file are taken.

    Args:
        data: a data set with clean labels.
        path: CIFAR-10N's `CIFAR-10_human.pt`, or a .npz file with the same names, or a .npy file
            with one array of integers.
        which: Which labels of the file, `worse_label` by default.
    """
    path = require("labels", Path(path).name, [Path(path).parent], f"{HOME} (CIFAR-10N)")
    check_size(path.stat().st_size, path, _MAX_FILE)
    which = which or HUMAN_LABELS[1]
    tables, held = _read(path, which)
    if which not in tables:
        names = shortened(", ".join(sorted(held)), 400)
        raise ValueError(f"human_labels must be one of those in {path}, {names}; got {which!r}.")
    labels = _labels(tables[which], f"{which} of {path}", data)
    if CLEAN in tables:
        theirs = _labels(tables[CLEAN], f"{CLEAN} of {path}", data)
        wrong = (theirs != data.train_labels).nonzero().flatten()
        if len(wrong):
            first = int(wrong[0])
            raise ValueError(
                f"{path} belongs to other data: its {CLEAN} differs from {data.name}'s labels for "
                f"{len(wrong):,} of {len(theirs):,} samples, first for sample {first} "
                f"({int(theirs[first])}, not {int(data.train_labels[first])})."
            )
    return dataclasses.replace(
        data, train_labels=labels, noisy=True, clean_labels=data.train_labels
    )


def _read(path: Path, which: str) -> tuple[dict[str, Any], list[str]]:
    """The wanted arrays of a file by name, and all names; a single array has the wanted name."""
    if path.suffix == ".npy":
        return {which: read_npy(path, _MAX_FILE)}, [which]
    if path.suffix == ".npz":
        return read_npz(path, lambda held: [name for name in (which, CLEAN) if name in held])
    content = read_torch(path, _MAX_FILE)
    if not isinstance(content, dict):
        content = {which: content}
    tables = {name: value for name, value in content.items() if name in (which, CLEAN)}
    return tables, [name for name in content if isinstance(name, str)]


def _labels(values: Any, name: str, data: DataSet) -> Tensor:
    labels = as_labels(values, name, 0, data.n_classes - 1)
    if len(labels) < len(data.train_labels):
        raise ValueError(
            f"{name} must be integers [N] for the {len(data.train_labels):,} training "
            f"samples; got [{len(labels)}]."
        )
    return labels[: len(data.train_labels)]
