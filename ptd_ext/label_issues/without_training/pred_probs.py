"""Reads pred_probs: probabilities by row, and the class of each column."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from torch import Tensor

from ptd_ext.engine.rows.labels import GivenLabels, encode_labels
from ptd_ext.utils.bounded_files import shortened
from ptd_ext.utils.ids import as_rows

_TOLERANCE = 1e-3  # how far the sum of a row may be from one


def as_probabilities(pred_probs: Any) -> Tensor:
    """The probabilities in float64, normalised to a sum of one in each row, [N, C]."""
    rows = as_rows(pred_probs, "pred_probs").double()
    if (rows < 0).any():
        row = int((rows < 0).any(1).nonzero()[0])
        raise ValueError(f"pred_probs must be probabilities; row {row} is {rows[row].tolist()}.")
    error = (rows.sum(1) - 1).abs()
    if len(rows) and error.max() > _TOLERANCE:
        row = int(error.argmax())
        raise ValueError(
            f"pred_probs must have rows that sum to one; row {row} sums to {rows[row].sum():.6g}. "
            "Apply softmax to logits first."
        )
    return rows / rows.sum(1, keepdim=True)


def labels_by_column(y: Any, pred_probs: Any, n_columns: int) -> GivenLabels:
    """The given labels as indices of the columns of pred_probs.

    Named columns of a data frame are matched with the labels by value, in any order. Without
    names, the columns are the sorted labels, or the labels are indices of columns.
    """
    labels = encode_labels(y)
    names = list(getattr(pred_probs, "columns", ()))
    classes = _named_classes(labels.classes.tolist(), names) if names else None
    if classes is None and len(labels.classes) != n_columns:
        found = labels.classes
        if found.dtype.kind not in "iu" or not len(found) or found[0] < 0 or found[-1] >= n_columns:
            raise ValueError(
                f"pred_probs has {n_columns} columns and y {len(found)} classes: name the class of "
                "each column in classes."
            )
        classes = list(range(n_columns))
    return labels if classes is None else encode_labels(y, classes)


def check_order(classes: Sequence[Hashable] | None, pred_probs: Any) -> None:
    """Raise if the columns of a data frame are named after `classes`, in another order."""
    names, given = list(getattr(pred_probs, "columns", ())), list(classes or ())
    matched = _match(given, names, str) or _match(given, names, _as_number)
    if matched not in (None, given) and names != list(range(len(names))):
        raise ValueError(
            f"classes must be in the order of the columns of pred_probs, {shortened(names)}; got "
            f"{shortened(given)}."
        )


def _named_classes(labels: list[Any], names: list[Any]) -> Sequence[Hashable] | None:
    """The class of each column by its name; None for a default numbering of the columns."""
    if set(map(type, labels)) == set(map(type, names)) and set(labels) <= set(names):
        return names
    matched = _match(labels, names, str) or _match(labels, names, _as_number)
    numbered = names == list(range(len(names)))
    if numbered and matched in (None, labels):
        return None
    if matched is None or numbered:
        raise ValueError(
            f"pred_probs must have columns named after the classes of y, {shortened(labels)}; got "
            f"{shortened(names)}. Rename the columns, or name the class of each in classes."
        )
    return matched


def _match(
    labels: list[Any], names: list[Any], key: Callable[[Any], Hashable]
) -> list[Hashable] | None:
    """The label of each column by equal keys; None unless every one has exactly one partner."""
    by_key = {key(label): label for label in labels}
    keys = list(map(key, names))
    if len(by_key) != len(labels) or len(set(keys)) != len(keys) or set(keys) != set(by_key):
        return None
    return [by_key[each] for each in keys]


def _as_number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return value
