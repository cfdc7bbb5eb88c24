"""Labels that people gave, with their mistakes: CIFAR-10N, and label files of one's own."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.train.data.dataset import DataSet
from ptd_ext.train.data.locate import MissingFileError, check_size

__all__ = ["HUMAN_LABELS", "with_labels"]

HOME = "http://noisylabels.com"
HUMAN_LABELS = ("aggre_label", "worse_label", "random_label1", "random_label2", "random_label3")
CLEAN = "clean_label"
_MAX_FILE = 1 << 30


def with_labels(data: DataSet, path: Path | str, which: str | None) -> DataSet:
    """The data set with the training labels of a file, and its own ones as the clean labels.

    Labels are in the order of the training samples. Where the data set has fewer, as CIFAR-10 with
    some of its batches has, the first ones count.

    Args:
        data: With clean labels.
        path: CIFAR-10N's `CIFAR-10_human.pt`, or a .npz file with the same names, or a .npy file
            with one array of whole numbers.
        which: Which labels of the file, `worse_label` by default.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError("labels", path.name, [path.parent], f"{HOME} (CIFAR-10N)")
    check_size(path.stat().st_size, path, _MAX_FILE)
    tables = _read(path)
    which = which or HUMAN_LABELS[1]
    if "" in tables:
        tables = {which: tables[""]}
    if which not in tables:
        raise ValueError(
            f"human_labels must be one of those in {path}, {', '.join(sorted(tables))}; "
            f"got {which!r}."
        )
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


def _read(path: Path) -> dict[str, Any]:
    """The arrays of a file by name; a single array has the name ''."""
    try:
        if path.suffix in (".npy", ".npz"):
            # A file maps .npy into memory, so that its header can claim no more than it has.
            mode = "r" if path.suffix == ".npy" else None
            content = np.load(path, mmap_mode=mode, allow_pickle=False)
            if path.suffix == ".npy":
                return {"": np.array(content)}
            with content:
                for member in content.zip.infolist():
                    check_size(member.file_size, path, _MAX_FILE)
                return {name: content[name] for name in content.files}
        with torch.serialization.safe_globals(_numpy_globals()):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} is refused: it holds more than arrays ({str(error).splitlines()[0]})."
        ) from None
    # Damaged files raise whatever the damage makes the readers stumble over.
    except Exception as error:
        raise ValueError(f"{path} is cut off, damaged or of another format: {error}.") from error
    return dict(content) if isinstance(content, dict) else {"": content}


def _numpy_globals() -> list[Any]:
    """What a saved NumPy array of whole numbers is made with, by NumPy 1's names and by NumPy 2's.

    The same names as in safe_pickle; torch itself does the rest of the checking.
    """
    reconstruct = np._core.multiarray._reconstruct if hasattr(np, "_core") else None
    if reconstruct is None:  # NumPy 1
        reconstruct = np.core.multiarray._reconstruct
    types = [type(np.dtype(code)) for code in ("u1", "i1", "i2", "i4", "i8")]
    return [
        (reconstruct, "numpy.core.multiarray._reconstruct"),
        (reconstruct, "numpy._core.multiarray._reconstruct"),
        np.ndarray,
        np.dtype,
        *types,
    ]


def _labels(values: Any, name: str, data: DataSet) -> Tensor:
    values = torch.as_tensor(values)
    if values.dim() != 1 or values.is_floating_point() or len(values) < len(data.train_labels):
        raise ValueError(
            f"{name} must be whole numbers [N] for the {len(data.train_labels):,} training "
            f"samples; got {values.dtype} {list(values.shape)}."
        )
    values = values[: len(data.train_labels)].long()
    if values.min() < 0 or values.max() >= data.classes:
        bad = int(values.min() if values.min() < 0 else values.max())
        raise ValueError(f"{name} must be 0 to {data.classes - 1}; got {bad}.")
    return values
