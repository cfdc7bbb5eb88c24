"""Given labels of any hashable kind, as class indices and back."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptd_ext.utils.arguments import is_complex
from ptd_ext.utils.bounded_files import shortened

# NumPy's string type pads every row to the longest: with one label of ten million characters, each
# of the others would take 40 MB. Longer strings stay Python objects.
_MAX_CHARACTERS = 32
_MAX_SHOWN = 400  # characters of classes in an error message


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
        name: the name of the argument in error messages.
    """
    values = _as_array(labels, name)
    found = _distinct(values) if classes is None else _as_array(list(classes), "classes")
    index = {label: position for position, label in enumerate(found.tolist())}
    if len(index) != len(found):
        got = shortened(found.tolist(), _MAX_SHOWN)
        raise ValueError(f"classes must be different from each other; got {got}.")
    codes = np.empty(len(values), dtype=np.int64)
    for row, label in enumerate(values.tolist()):
        position = index.get(label)
        if position is None:
            raise ValueError(
                f"{name} holds {shortened(repr(label))} at row {row}, which is not among classes."
            )
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
        values = array_of(_listed(labels, name))
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
    if values.dtype.kind in "mM":
        raise ValueError(f"{name} must hold classes; it holds dates or durations. Name them.")
    if is_complex(values):
        raise ValueError(f"{name} must hold classes. Complex data not supported.")
    return values


def _listed(values: Any, name: str) -> list[Any]:
    if isinstance(values, (Mapping, Set)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence, [N]; got {type(values).__name__}.")
    return list(values)


def as_ids(ids: Any, count: int) -> NDArray[Any]:
    """The ids of `count` rows as an array [N]."""
    values = np.asarray(ids) if hasattr(ids, "__array__") else array_of(_listed(ids, "ids"))
    if values.shape != (count,):
        got = len(values) if values.ndim == 1 else list(values.shape)
        raise ValueError(f"ids must have one row for each of {count} labels; got {got}.")
    return values


def id_list(ids: NDArray[Any]) -> list[Any]:
    """The ids as Python objects; those that are dates or durations as strings."""
    # tolist() turns times in nanoseconds into integers.
    found: list[Any] = (ids.astype(str) if ids.dtype.kind in "mM" else ids).tolist()
    return found


def join_ids(ids: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Ids of several parts as one array, without a loss of digits.

    NumPy would make floats of signed and unsigned integers, of which several may be equal.
    """
    if len({each.dtype.kind for each in ids}) == 1:
        return np.concatenate(ids)
    return array_of([value for each in ids for value in each.tolist()])


def row_ids(X: Any, count: int) -> NDArray[Any]:  # noqa: N803
    """The ids of rows: the index of a data frame, otherwise row numbers."""
    index = getattr(X, "index", None) if hasattr(X, "columns") else None
    return np.arange(count) if index is None else np.asarray(index)


def array_of(values: Sequence[Any]) -> NDArray[Any]:
    """Return an array of the values' own type if they share one, otherwise of objects."""
    kinds = {type(value) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else object
    known = kind in (bool, int, float, str) or issubclass(kind, np.generic)
    if known and (not issubclass(kind, (str, bytes)) or _fit_numpy_strings(values)):
        array = np.asarray(values)
        # Integers of more than 64 bits become floats, of which several may be equal.
        if kind is not int or array.dtype.kind in "iu":
            return array
    array = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):  # NumPy would make a matrix of tuples
        array[position] = value
    return array


def _fit_numpy_strings(strings: Sequence[Any]) -> bool:
    """False for a string that is too long, or that ends in NUL characters, which NumPy cuts off."""
    end = "\0" if isinstance(strings[0], str) else b"\0"
    return all(len(text) <= _MAX_CHARACTERS and not text.endswith(end) for text in strings)


def is_missing(value: Any) -> bool:
    """True for None, NaN, and pandas' NA and NaT, which are recognised by their types' names."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _reject_missing(values: NDArray[Any], name: str) -> None:
    for row, label in enumerate(values.tolist()):
        if is_missing(label):
            raise ValueError(
                f"{name} has a missing label at row {row} (it is {label!r}; Input contains NaN). "
                "Leave rows without a label out, or make them a class."
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
    return array_of(found)
