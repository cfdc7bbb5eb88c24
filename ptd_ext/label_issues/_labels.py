"""Given labels of any hashable kind, as class indices and back."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["GivenLabels", "encode_labels"]


@dataclass(frozen=True)
class GivenLabels:
    """Labels as class indices.

    Attributes:
        codes: the class index of every row, int64 [N].
        classes: the labels themselves, [C], of the type they came in; sorted where they can be.
    """

    codes: NDArray[np.int64]
    classes: NDArray[Any]

    @property
    def names(self) -> list[str]:
        """The classes as text, for tables and pages."""
        return [str(label) for label in self.classes.tolist()]


def encode_labels(
    labels: Any, classes: Sequence[Hashable] | None = None, name: str = "y"
) -> GivenLabels:
    """The class index of every label.

    Args:
        labels: [N] or [N, 1]: a sequence, an array, a tensor or a column of a data frame.
        classes: all classes in their order, where a caller knows them.
        name: of the argument, for error messages.
    """
    values = _as_array(labels, name)
    found = _distinct(values) if classes is None else _as_array(list(classes), "classes")
    index = {label: position for position, label in enumerate(found.tolist())}
    if len(index) != len(found):
        raise ValueError(f"classes must be different from each other; got {list(found)}.")
    codes = np.empty(len(values), dtype=np.int64)
    for row, label in enumerate(values.tolist()):
        position = index.get(label)
        if position is None:
            raise ValueError(f"{name} holds {label!r} at row {row}, which is not among classes.")
        codes[row] = position
    return GivenLabels(codes, found)


def _as_array(labels: Any, name: str) -> NDArray[Any]:
    if labels is None:
        raise ValueError(f"{name} must hold a label for every row; got None.")
    if isinstance(labels, torch.Tensor):
        values: NDArray[Any] = labels.detach().cpu().numpy()
    elif hasattr(labels, "to_numpy"):
        values = np.asarray(labels.to_numpy())
    elif hasattr(labels, "__array__"):
        values = np.asarray(labels)
    else:
        values = _array_of(list(labels))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must be one label per row, [N]; got {list(values.shape)}.")
    if values.dtype.kind in "OfUS":
        _reject_missing(values, name)
    if values.dtype.kind == "f":
        uneven = np.flatnonzero(values != np.round(values))
        if len(uneven):
            raise ValueError(
                f"{name} must hold classes. Unknown label type: continuous, such as "
                f"{values[uneven[0]]} at row {uneven[0]}. Round or bin numbers to classes first."
            )
    if values.dtype.kind == "c":
        raise ValueError(f"{name} must hold classes. Complex data not supported.")
    return values


def _array_of(values: list[Any]) -> NDArray[Any]:
    """Return an array of the values' own type if they share one, otherwise of objects."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        return np.asarray(values)
    if kinds and all(issubclass(kind, np.generic) for kind in kinds) and len(kinds) == 1:
        return np.asarray(values)
    array = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):  # NumPy would make a matrix of tuples
        array[position] = value
    return array


def _reject_missing(values: NDArray[Any], name: str) -> None:
    for row, label in enumerate(values.tolist()):
        # pandas' NA equals nothing and has no truth value, so it is recognised by its type's name.
        if label is None or type(label).__name__ in ("NAType", "NaTType"):
            missing = True
        else:
            missing = isinstance(label, float) and label != label
        if missing:
            raise ValueError(
                f"{name} holds no label at row {row} (it is {label!r}; Input contains NaN). Leave "
                "rows without a label out, or give them a class of their own."
            )
        if isinstance(label, float) and label in (float("inf"), float("-inf")):
            raise ValueError(f"{name} holds infinity at row {row}: it must hold classes.")


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype != object:
        return np.unique(values)
    try:
        found = list(dict.fromkeys(values.tolist()))
    except TypeError as error:
        raise TypeError(f"labels must be hashable: {error}.") from None
    with contextlib.suppress(TypeError):  # labels of several kinds stay in the order of rows
        found = sorted(found)
    return _array_of(found)
