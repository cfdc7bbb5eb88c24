"""Checks and conversions of labels, ids and posteriors that callers pass in.

An id is an integer that a sample keeps when data are shuffled, split or sharded. Without ids the
samples are numbered 0 … N−1 in their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.utils.arguments import check_integer
from ptd_ext.utils.bounded_files import shortened

# The library's maximum: a matrix [C, C] of float32 then takes 4 GiB. Larger labels are usually ids.
MAX_CLASSES = 1 << 15
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def as_tensor(values: Any, name: str) -> Tensor:
    """Return numbers of any container as a tensor without a gradient."""
    if hasattr(values, "to_numpy"):  # the array of a data frame may be read-only
        values = np.array(values.to_numpy())
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        # torch accepts neither negative strides nor a foreign byte order.
        values = np.asarray(values, values.dtype.newbyteorder("="), order="C")
    try:
        return torch.as_tensor(values).detach()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(
            f"{name} must be a tensor, an array or a list of numbers; got "
            f"{shortened(repr(values))}."
        ) from None


def as_ids(ids: Any, samples: int, device: torch.device) -> Tensor:
    """Return int64 ids [N] on `device`, by default 0 … N−1; they must be distinct and ≥ 0."""
    if ids is None:
        return torch.arange(samples, device=device)
    ids = _integers(ids, "ids").to(device)
    if ids.shape != (samples,):
        raise ValueError(f"ids must be [{samples}], one per sample; got {list(ids.shape)}.")
    ordered = ids.sort().values
    if samples and ordered[0] < 0:
        raise ValueError(f"ids must not be negative; got {ordered[0].item()}.")
    repeated = ordered[1:] == ordered[:-1]
    if repeated.any():
        raise ValueError(f"ids must be distinct; {ordered[1:][repeated][0].item()} occurs twice.")
    return ids


def as_labels(labels: Any, n_classes: int | None) -> tuple[Tensor, int]:
    """Return int64 labels [N] and the number of classes, by default the largest label plus one."""
    labels = _integers(labels, "labels")
    if labels.dim() != 1:
        raise ValueError(f"labels must be [N]; got {list(labels.shape)}.")
    largest = int(labels.max()) if len(labels) else -1
    n_classes = largest + 1 if n_classes is None else check_integer(n_classes, "n_classes", 0)
    if n_classes > MAX_CLASSES:
        raise ValueError(
            f"n_classes must be at most {MAX_CLASSES:,}; got {n_classes:,}, and the largest label "
            f"is {largest:,}. Number the classes 0, 1, 2, …"
        )
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2; got {n_classes}.")
    if len(labels) and (labels.min() < 0 or largest >= n_classes):
        bad = int(labels.min()) if labels.min() < 0 else largest
        raise ValueError(f"labels must be from 0 to {n_classes - 1}; got {bad}.")
    return labels, n_classes


def as_rows(rows: Any, name: str, columns: str = "C") -> Tensor:
    """Return a finite floating-point tensor [N, columns]."""
    rows = as_tensor(rows, name)
    if rows.dim() != 2:
        raise ValueError(f"{name} must be [N, {columns}]; got {list(rows.shape)}.")
    if not rows.shape[1]:
        raise ValueError(f"{name} must have at least one column; got {list(rows.shape)}.")
    if not rows.is_floating_point() or rows.element_size() == 1:  # torch cannot compute in 8 bits
        raise TypeError(f"{name} must be floating-point; got {rows.dtype}.")
    if not rows.isfinite().all():
        where = (~rows.isfinite()).nonzero()[0].tolist()
        value = rows[tuple(where)].item()
        raise ValueError(f"{name} must be finite; {name}[{where[0]}, {where[1]}] is {value}.")
    return rows


def positions(wanted: Tensor, ids: Tensor, name: str) -> Tensor:
    """Return the index in `ids` of each of `wanted`; raises ValueError for a missing id."""
    wanted = wanted.to(ids.device)
    missing = wanted[~torch.isin(wanted, ids)]
    if len(missing):
        raise ValueError(
            f"{name} must be in ids; {len(missing)} of {len(wanted)} are missing, the first is "
            f"{missing[0].item()}."
        )
    ordered, order = ids.sort()
    return order[torch.searchsorted(ordered, wanted)]


def _integers(values: Any, name: str) -> Tensor:
    values = as_tensor(values, name)
    if values.dtype not in _INTEGERS and values.numel():
        raise TypeError(f"{name} must be integers; got {values.dtype}.")
    return values.long()
