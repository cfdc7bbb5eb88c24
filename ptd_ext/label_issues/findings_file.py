"""Findings in a file: tensors, and the rest as JSON. No code is stored."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.inputs.labels import array_of
from ptd_ext.label_issues.rates import Interval, NoiseRate
from ptd_ext.utils import tensor_files
from ptd_ext.utils.bounded_files import reason, shortened

__all__ = ["read_issues", "write_issues"]

_KIND = "label issues"
_ARRAYS = ("posterior", "label_quality", "is_label_issue", "suggested_probability", "transition")
_NEEDED = (*_ARRAYS, "given", "suggested", "rates")
_PLAIN = (bool, int, str)
_FLOATS = (torch.float32, torch.float64)


def write_issues(found: LabelIssues, path: str | os.PathLike[str]) -> None:
    """Write findings so that :func:`read_issues` gives them back, all but `sample`."""
    classes = found.classes.tolist()
    odd = next((label for label in classes if not isinstance(label, _PLAIN)), None)
    if odd is not None:
        raise TypeError(f"classes must be whole numbers or texts to be saved; got {odd!r}.")
    if len(set(map(type, classes))) > 1:
        raise TypeError(f"classes must be of one kind to be saved; got {shortened(classes)}.")
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
    except KeyError as error:
        raise ValueError(f"{path} holds no usable label issues: it lacks {error}.") from None
    except (TypeError, ValueError, IndexError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{path} holds no usable label issues: {reason(error)}.") from None


def _restore(tensors: dict[str, Tensor], about: dict[str, Any]) -> LabelIssues:
    classes = _classes(about["classes"])
    rows = len(tensors["given"]) if tensors["given"].dim() == 1 else 0
    _check_tensors(tensors, rows, len(classes))
    _check_words(about)
    given, suggested = tensors["given"].numpy(), tensors["suggested"].numpy()
    rates = [Interval(*row) for row in tensors["rates"].tolist()]
    arrays: dict[str, Any] = {
        name: tensors[name].numpy()
        for name in (*_ARRAYS, "parts", "part_shares")
        if name in tensors
    }
    ids = _ids_from_tensors(tensors)
    if len(ids) != rows:
        raise ValueError(f"ids must be of {rows} rows; there are {len(ids)}")
    return LabelIssues(
        ids=ids,
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


def _classes(given: Any) -> NDArray[Any]:
    kinds = {type(label) for label in given} if isinstance(given, list) else set()
    if not kinds or not kinds <= set(_PLAIN) or len(kinds) > 1:
        raise ValueError("classes must be whole numbers or texts")
    return array_of(given)


def _check_tensors(tensors: dict[str, Tensor], rows: int, classes: int) -> None:
    """Raise unless the tensors are of so many rows and classes, and of the types written."""
    parts = len(tensors["parts"]) if "parts" in tensors and tensors["parts"].dim() else 0
    square = (classes, classes)
    wanted = {
        "posterior": ((rows, classes), _FLOATS),
        "label_quality": ((rows,), _FLOATS),
        "is_label_issue": ((rows,), (torch.bool,)),
        "suggested_probability": ((rows,), _FLOATS),
        "transition": (square, _FLOATS),
        "given": ((rows,), (torch.int64,)),
        "suggested": ((rows,), (torch.int64,)),
        "rates": ((classes + 1, 3), (torch.float64,)),
        "parts": ((parts, *square), _FLOATS),
        "part_shares": ((parts,), _FLOATS),
    }
    for name, (shape, dtypes) in wanted.items():
        tensor = tensors.get(name)
        if tensor is not None and (tensor.shape != shape or tensor.dtype not in dtypes):
            raise ValueError(
                f"{name} must be {list(shape)} of {' or '.join(map(str, dtypes))}; it is "
                f"{tensor.dtype} {list(tensor.shape)}"
            )
    for name in ("given", "suggested"):
        if rows and not 0 <= tensors[name].min() <= tensors[name].max() < classes:
            raise ValueError(f"{name} must be 0 to {classes - 1}; it is not")


def _check_words(about: dict[str, Any]) -> None:
    texts = about["warnings"]
    if not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
        raise ValueError("warnings must be a list of texts")
    for name in ("facts", "curves"):
        if not isinstance(about[name], dict):
            raise ValueError(f"{name} must have names and values")
    if not all(isinstance(values, list) for values in about["curves"].values()):
        raise ValueError("curves must be lists of numbers")


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
        if tensors["ids"].dim() != 1:
            raise ValueError("ids must be a list")
        return tensors["ids"].numpy()
    blob, ends = tensors["id_bytes"].numpy().tobytes(), tensors["id_ends"].tolist()
    starts = [0, *ends[:-1]]
    if not all(start <= end <= len(blob) for start, end in zip(starts, ends, strict=True)):
        raise ValueError("the ends of its ids must rise")
    texts = [os.fsdecode(blob[start:end]) for start, end in zip(starts, ends, strict=True)]
    return np.array(texts, dtype=object)
