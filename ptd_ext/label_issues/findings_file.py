"""The file of LabelIssues.save: tensors, and metadata as JSON. No code is stored."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.engine.rows.labels import array_of
from ptd_ext.label_issues.findings import UNVERIFIED, LabelIssues
from ptd_ext.label_issues.rates import Interval, NoiseRate
from ptd_ext.label_issues.review.decisions import Answer
from ptd_ext.utils import tensor_files
from ptd_ext.utils.bounded_files import reason, shortened

_KIND, _FORMAT = "label issues", 3
_ARRAYS = ("posterior", "label_quality", "is_label_issue", "suggested_probability", "transition")
_OPTIONAL = ("parts", "part_shares")
_NEEDED = (*_ARRAYS, "given", "suggested", "rates", "ids", "classes", "verified")
_ANSWERS = np.array(sorted([UNVERIFIED, *(answer.value for answer in Answer)]))
_JSON_TYPES = (bool, int, float, str, type(None))
_FLOATS = (torch.float32, torch.float64)


def write_findings(found: LabelIssues, path: str | os.PathLike[str]) -> None:
    """Write all fields of the findings except `sample`."""
    rates = (found.noise_rate.overall, *found.noise_rate.by_class)
    columns = {"ids": found.ids, "classes": found.classes}
    arrays = {name: getattr(found, name) for name in (*_ARRAYS, *_OPTIONAL)}
    arrays |= {f"curve_{i}": np.array(each, float) for i, each in enumerate(found.curves.values())}
    tensors = {
        **{name: torch.from_numpy(each) for name, each in arrays.items() if each is not None},
        **{name: _json_bytes(column, name) for name, column in columns.items()},
        "given": torch.from_numpy(found.class_indices(found.given_label)),
        "suggested": torch.from_numpy(found.class_indices(found.suggested_label)),
        "verified": torch.from_numpy(np.searchsorted(_ANSWERS, found.verified)),
        # [C + 1, 3]: estimate, low and high, overall and for each class
        "rates": torch.tensor([[r.estimate, r.low, r.high] for r in rates], dtype=torch.float64),
    }
    about = {
        "dtypes": {name: column.dtype.str for name, column in columns.items()},
        "trusted": found.trusted,
        "warnings": list(found.warnings),
        "notes": list(found.notes),
        "facts": dict(found.facts),
        "curves": list(found.curves),
    }
    tensor_files.write(path, _KIND, tensors, about, _FORMAT)


def read_findings(path: str | os.PathLike[str]) -> LabelIssues:
    """Read findings; raises ValueError for a file that is damaged or holds something else."""
    tensors, about = tensor_files.read(path, _KIND, _NEEDED, _FORMAT)
    try:
        return _restore(tensors, about)
    except KeyError as error:
        raise ValueError(f"{path} holds no usable label issues: it lacks {error}.") from None
    except (TypeError, ValueError, IndexError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{path} holds no usable label issues: {reason(error)}.") from None


def _restore(tensors: dict[str, Tensor], about: dict[str, Any]) -> LabelIssues:
    ids, classes = (_from_json(tensors[name], about["dtypes"][name]) for name in ("ids", "classes"))
    _check_tensors(tensors, len(ids), len(classes))
    _check_metadata(about)
    arrays: dict[str, Any] = {
        name: tensors[name].numpy() for name in (*_ARRAYS, *_OPTIONAL) if name in tensors
    }
    rates = [Interval(*row) for row in tensors["rates"].tolist()]
    return LabelIssues(
        ids=ids,
        given_label=classes[tensors["given"].numpy()],
        suggested_label=classes[tensors["suggested"].numpy()],
        classes=classes,
        verified=_ANSWERS[tensors["verified"].numpy()],
        noise_rate=NoiseRate(rates[0], tuple(rates[1:])),
        trusted=bool(about["trusted"]),
        warnings=tuple(about["warnings"]),
        notes=tuple(about["notes"]),
        facts=about["facts"],
        curves={name: tensors[f"curve_{i}"].tolist() for i, name in enumerate(about["curves"])},
        **arrays,
    )


def _check_tensors(tensors: dict[str, Tensor], rows: int, n_classes: int) -> None:
    """Raise ValueError unless the tensors have the shapes and types that are written."""
    parts = len(tensors["parts"]) if "parts" in tensors and tensors["parts"].dim() else 0
    square = (n_classes, n_classes)
    expected = {
        "posterior": ((rows, n_classes), _FLOATS),
        "label_quality": ((rows,), _FLOATS),
        "is_label_issue": ((rows,), (torch.bool,)),
        "suggested_probability": ((rows,), _FLOATS),
        "transition": (square, _FLOATS),
        "given": ((rows,), (torch.int64,)),
        "suggested": ((rows,), (torch.int64,)),
        "verified": ((rows,), (torch.int64,)),
        "rates": ((n_classes + 1, 3), (torch.float64,)),
        "parts": ((parts, *square), _FLOATS),
        "part_shares": ((parts,), _FLOATS),
    }
    for name, (shape, dtypes) in expected.items():
        tensor = tensors.get(name)
        if tensor is not None and (tensor.shape != shape or tensor.dtype not in dtypes):
            raise ValueError(
                f"{name} must be {list(shape)} of {' or '.join(map(str, dtypes))}; it is "
                f"{tensor.dtype} {list(tensor.shape)}"
            )
    for name, count in (
        ("given", n_classes),
        ("suggested", n_classes),
        ("verified", len(_ANSWERS)),
    ):
        if rows and not 0 <= tensors[name].min() <= tensors[name].max() < count:
            raise ValueError(f"{name} must hold indices from 0 to {count - 1}")


def _check_metadata(about: dict[str, Any]) -> None:
    for name in ("warnings", "notes", "curves"):
        values = about[name]
        if not (isinstance(values, list) and all(isinstance(value, str) for value in values)):
            raise ValueError(f"{name} must be a list of strings")
    if not isinstance(about["facts"], dict):
        raise ValueError("facts must map names to values")


def _json_bytes(column: NDArray[Any], name: str) -> Tensor:
    """The values as the bytes of a JSON list; dates and durations as integers."""
    values = column.view(np.int64) if column.dtype.kind in "mM" else column
    listed = [_plain(value, name) for value in values.tolist()]
    return tensor_files.json_tensor(listed)


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, tuple):
        return [_plain(each, name) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) not in _JSON_TYPES:
        raise TypeError(
            f"{name} must be numbers, strings, dates or tuples of these to be saved; got "
            f"{shortened(repr(value))}. Convert them to strings."
        )
    return value


def _from_json(content: Tensor, dtype_name: str) -> NDArray[Any]:
    dtype, values = np.dtype(dtype_name), tensor_files.json_of(content)
    if not isinstance(values, list) or dtype.kind not in "biufmMUO":
        raise ValueError("ids and classes must be lists of numbers, strings or dates")
    if dtype.kind == "U":
        return array_of(values)
    if dtype.kind == "O":
        column = np.empty(len(values), dtype=object)
        for position, value in enumerate(values):
            column[position] = _with_tuples(value)
        return column
    column = np.array(values, dtype=np.int64 if dtype.kind in "mM" else dtype)
    if column.ndim != 1:
        raise ValueError("ids and classes must be flat lists")
    return column.view(dtype) if dtype.kind in "mM" else column


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        raise ValueError("ids and classes must not hold mappings")
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
