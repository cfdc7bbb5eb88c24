"""Labels, ids and posteriors of samples, as the functions of the library take them in.

A sample is known by its id, a whole number that it keeps when data are shuffled, split or sharded.
Without ids the samples are 0 … N−1 in the order in which they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.utils.arguments import whole_number
from ptd_ext.utils.bounded_files import shortened

__all__ = ["as_ids", "as_labels", "as_rows", "as_tensor", "positions"]

MAX_CLASSES = 1 << 15  # a matrix [C, C] of float32 then takes 4 GiB
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def as_tensor(values: Any, name: str) -> Tensor:
    """A tensor without a gradient, of whatever holds numbers."""
    if hasattr(values, "to_numpy"):  # a data frame; its own array may not be written to
        values = np.array(values.to_numpy())
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        # torch takes no reversed array, and none of another byte order.
        values = np.asarray(values, values.dtype.newbyteorder("="), order="C")
    try:
        return torch.as_tensor(values).detach()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(
            f"{name} must be a tensor, an array or a list of numbers; got "
            f"{shortened(repr(values))}."
        ) from None


def as_ids(ids: Any, samples: int, device: torch.device) -> Tensor:
    """Int64 ids [N] on `device`, arange by default; raises for negative and repeated ones."""
    if ids is None:
        return torch.arange(samples, device=device)
    ids = _whole_numbers(ids, "ids").to(device)
    if ids.shape != (samples,):
        raise ValueError(f"ids must be [{samples}], one per sample; got {list(ids.shape)}.")
    ordered = ids.sort().values
    if samples and ordered[0] < 0:
        raise ValueError(f"ids must not be negative; got {ordered[0].item()}.")
    repeated = ordered[1:] == ordered[:-1]
    if repeated.any():
        raise ValueError(f"ids must be distinct; {ordered[1:][repeated][0].item()} came twice.")
    return ids


def as_labels(labels: Any, classes: int | None) -> tuple[Tensor, int]:
    """Int64 labels [N] and the number of classes, by default the largest label plus one."""
    labels = _whole_numbers(labels, "labels")
    if labels.dim() != 1:
        raise ValueError(f"labels must be [N]; got {list(labels.shape)}.")
    largest = int(labels.max()) if len(labels) else -1
    classes = largest + 1 if classes is None else whole_number(classes, "classes", least=0)
    if classes > MAX_CLASSES:
        raise ValueError(
            f"classes must be at most {MAX_CLASSES:,}; got {classes:,}, and the largest label is "
            f"{largest:,}. Number the classes from 0 on."
        )
    if classes < 2:
        raise ValueError(f"classes must be at least 2 for a label to be wrong; got {classes}.")
    if len(labels) and (labels.min() < 0 or largest >= classes):
        bad = int(labels.min()) if labels.min() < 0 else largest
        raise ValueError(f"labels must be 0 to {classes - 1}; got {bad}.")
    return labels, classes


def as_rows(rows: Any, name: str, columns: str = "C") -> Tensor:
    """A finite floating-point tensor [N, columns]."""
    rows = as_tensor(rows, name)
    if rows.dim() != 2:
        raise ValueError(f"{name} must be [N, {columns}]; got {list(rows.shape)}.")
    if not rows.shape[1]:
        raise ValueError(f"{name} must have at least one column; got {list(rows.shape)}.")
    if not rows.is_floating_point():
        raise TypeError(f"{name} must be floating-point; got {rows.dtype}.")
    if not rows.isfinite().all():
        where = (~rows.isfinite()).nonzero()[0].tolist()
        value = rows[tuple(where)].item()
        raise ValueError(f"{name} must be finite; {name}[{where[0]}, {where[1]}] is {value}.")
    return rows


def positions(
    wanted: Tensor, ids: Tensor, name: str, sorted_ids: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Return the index in `ids` of each of `wanted`; raises for ids that are not there.

    `sorted_ids` is `ids.sort()`, if the caller has it already.
    """
    ordered, order = ids.sort() if sorted_ids is None else sorted_ids
    place = torch.searchsorted(ordered, wanted.to(ids.device))
    found = place < len(ids)
    place = place.clamp(max=max(len(ids) - 1, 0))
    if len(ids):
        found &= ordered[place] == wanted.to(ids.device)
    if not found.all():
        missing = wanted.to(ids.device)[~found]
        raise ValueError(
            f"{name} must name samples in ids; {len(missing)} of {len(wanted)} are not there, "
            f"the first is {missing[0].item()}."
        )
    return order[place]


def _whole_numbers(values: Any, name: str) -> Tensor:
    values = as_tensor(values, name)
    if values.dtype not in _INTEGERS and values.numel():
        raise TypeError(f"{name} must be whole numbers; got {values.dtype}.")
    return values.long()
