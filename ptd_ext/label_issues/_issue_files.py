"""Findings in a file: tensors, and the rest as JSON. No code is stored."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.label_issues._labels import array_of
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.rates import Interval, NoiseRate
from ptd_ext.utils import tensor_files

__all__ = ["read_issues", "write_issues"]

_KIND = "label issues"
_ARRAYS = ("posterior", "label_quality", "is_label_issue", "suggested_probability", "transition")
_NEEDED = (*_ARRAYS, "given", "suggested", "rates")
_PLAIN = (bool, int, str)


def write_issues(found: LabelIssues, path: str | os.PathLike[str]) -> None:
    """Write findings so that :func:`read_issues` gives them back, all but `sample`."""
    classes = found.classes.tolist()
    odd = next((label for label in classes if not isinstance(label, _PLAIN)), None)
    if odd is not None:
        raise TypeError(f"classes must be whole numbers or texts to be saved; got {odd!r}.")
    index = {label: position for position, label in enumerate(classes)}
    rates = (found.noise_rate.overall, *found.noise_rate.by_class)
    tensors = {
        **{name: torch.from_numpy(getattr(found, name)) for name in _ARRAYS},
        "given": torch.tensor([index[label] for label in found.given_label.tolist()]),
        "suggested": torch.tensor([index[label] for label in found.suggested_label.tolist()]),
        # [C + 1, 3]: estimate, low and high, overall and of each class
        "rates": torch.tensor([[r.estimate, r.low, r.high] for r in rates], dtype=torch.float64),
        **_ids_as_tensors(found.ids),
    }
    for name in ("parts", "part_shares"):
        if getattr(found, name) is not None:
            tensors[name] = torch.from_numpy(getattr(found, name))
    about = {
        "classes": classes,
        "trusted": found.trusted,
        "warnings": list(found.warnings),
        "facts": dict(found.facts),
        "curves": {name: list(values) for name, values in found.curves.items()},
    }
    tensor_files.write(path, _KIND, tensors, about)


def read_issues(path: str | os.PathLike[str]) -> LabelIssues:
    """Read findings; raises ValueError for a file that holds none or is damaged."""
    tensors, about = tensor_files.read(path, _KIND, _NEEDED)
    try:
        return _restore(tensors, about)
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise ValueError(f"{path} holds no usable label issues: {error}") from None


def _restore(tensors: dict[str, Tensor], about: dict[str, Any]) -> LabelIssues:
    classes = array_of(list(about["classes"]))
    given, suggested = tensors["given"].numpy(), tensors["suggested"].numpy()
    rates = [Interval(*row) for row in tensors["rates"].tolist()]
    shape = list(tensors["posterior"].shape)
    if shape != [len(given), len(classes)] or len(rates) != len(classes) + 1:
        raise ValueError(f"probabilities {shape} of {len(given)} rows, {len(classes)} classes.")
    arrays: dict[str, Any] = {
        name: tensors[name].numpy()
        for name in (*_ARRAYS, "parts", "part_shares")
        if name in tensors
    }
    return LabelIssues(
        ids=_ids_from_tensors(tensors),
        given_label=classes[given],
        suggested_label=classes[suggested],
        classes=classes,
        noise_rate=NoiseRate(rates[0], tuple(rates[1:])),
        trusted=bool(about["trusted"]),
        warnings=tuple(about["warnings"]),
        facts=about["facts"],
        curves=about["curves"],
        **arrays,
    )


def _ids_as_tensors(ids: NDArray[Any]) -> dict[str, Tensor]:
    """Numbers as they are, texts as one string of bytes with the end of each."""
    if ids.dtype.kind in "iu":
        return {"ids": torch.from_numpy(ids.astype(np.int64))}
    pieces = [os.fsencode(str(each)) for each in ids.tolist()]
    ends = torch.tensor([len(piece) for piece in pieces], dtype=torch.int64).cumsum(0)
    blob = torch.frombuffer(bytearray(b"".join(pieces)) or bytearray(1), dtype=torch.uint8)
    return {"id_bytes": blob[: int(ends[-1]) if len(ends) else 0], "id_ends": ends}


def _ids_from_tensors(tensors: dict[str, Tensor]) -> NDArray[Any]:
    if "ids" in tensors:
        return tensors["ids"].numpy()
    blob, ends = tensors["id_bytes"].numpy().tobytes(), tensors["id_ends"].tolist()
    starts = [0, *ends[:-1]]
    texts = [os.fsdecode(blob[start:end]) for start, end in zip(starts, ends, strict=True)]
    return np.array(texts, dtype=object)
