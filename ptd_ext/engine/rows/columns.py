"""Columns of a data frame as numbers: numeric ones as they are, categories one-hot."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.labels import is_missing
from ptd_ext.utils.arguments import is_complex

_MAX_CATEGORIES = 200
_NUMBERS = (int, float, np.number, np.bool_)


def is_frame(X: Any) -> bool:  # noqa: N803
    """True if X is a data frame, of pandas or of a library that looks like it."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and hasattr(X, "shape")


@dataclass(frozen=True)
class Columns:
    """The columns of a data frame in their order.

    Attributes:
        names: the names of the columns.
        categories: the values of each column as strings; None for a numeric column.
    """

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def fit(cls, frame: Any) -> Columns:
        """Find out which columns are numeric, and which values the others have."""
        if len(frame.columns) == 0 or len(frame) == 0:
            raise ValueError(f"X must have rows and columns; got {list(frame.shape)}.")
        _check_names(frame)
        names: list[str] = []
        categories: list[tuple[str, ...] | None] = []
        for name in frame.columns:
            values = _values(frame, name)
            names.append(str(name))
            if _is_numeric(values):
                categories.append(None)
                continue
            strings = _strings(name, values)
            found = tuple(sorted(set(strings)))
            if len(found) > min(_MAX_CATEGORIES, max(10, len(strings) // 2)):
                raise ValueError(
                    f"column {name!r} of X has {len(found):,} different values in "
                    f"{len(strings):,} rows: it looks like an id or free text. Leave it out, or "
                    "give embeddings of the text as features."
                )
            categories.append(found)
        return cls(tuple(names), tuple(categories))

    def encode(self, frame: Any) -> NDArray[np.float64]:
        """Return numbers [N, D]; a value that `fit` has not seen is zero in all its categories."""
        if not is_frame(frame):
            raise TypeError(
                f"X must be a data frame with the columns {list(self.names)}, as in fit; got "
                f"{type(frame).__name__}."
            )
        _check_names(frame)
        given = {str(name): name for name in frame.columns}
        missing = [name for name in self.names if name not in given]
        if missing:
            raise ValueError(
                f"X must have the columns of fit; it lacks {missing[0]!r}. It has {list(given)}."
            )
        blocks = []
        for name, categories in zip(self.names, self.categories, strict=True):
            values = _values(frame, given[name])
            if categories is None:
                blocks.append(_numbers(name, values)[:, None])
                continue
            codes = _codes(values, _strings(name, values), categories)
            blocks.append(np.equal.outer(codes, np.arange(len(categories))).astype(np.float64))
        return np.concatenate(blocks, axis=1)


def _check_names(frame: Any) -> None:
    repeated = [name for name, count in Counter(map(str, frame.columns)).items() if count > 1]
    if repeated:
        raise ValueError(f"X has several columns {repeated[0]!r}: give each a different name.")


def _values(frame: Any, name: Any) -> NDArray[Any]:
    values: NDArray[Any] = frame[name].to_numpy()
    if is_complex(values):
        raise ValueError(
            f"column {name!r} of X holds complex numbers. Give real and imaginary part as two "
            "columns."
        )
    return values


def _is_numeric(values: NDArray[Any]) -> bool:
    if values.dtype.kind in "biuf":
        return True
    # Columns of pandas' own numeric types that hold missing values arrive as objects.
    return values.dtype == object and all(
        isinstance(each, _NUMBERS) or is_missing(each) for each in values
    )


def _numbers(name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    if values.dtype.kind == "O":
        values = np.array([np.nan if is_missing(each) else each for each in values], dtype=object)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} of X must hold numbers, as it did in fit.") from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise ValueError(
            f"column {name!r} of X holds NaN or infinity in {len(bad):,} rows, first at row "
            f"{bad[0]}. Fill missing values (for instance with the median) or leave the rows out."
        )
    return numbers


def _codes(
    values: NDArray[Any], strings: list[str], categories: tuple[str, ...]
) -> NDArray[np.int64]:
    """The category of each value, or -1; a number may be spelled otherwise in it, such as 01."""
    index = {category: position for position, category in enumerate(categories)}
    spellings: dict[float, list[int]] = {}
    for category, position in index.items():
        with contextlib.suppress(ValueError):
            spellings.setdefault(float(category), []).append(position)
    codes = np.full(len(values), -1, dtype=np.int64)
    for row, (value, string) in enumerate(zip(values, strings, strict=True)):
        codes[row] = index.get(string, -1)
        if codes[row] < 0 and isinstance(value, _NUMBERS):
            found = spellings.get(float(value), [])
            codes[row] = found[0] if len(found) == 1 else -1
    return codes


def _strings(name: str, values: NDArray[Any]) -> list[str]:
    """Values as strings; an integer is the same category as a float or a string of it."""
    if values.dtype.kind in "mM":
        raise ValueError(
            f"column {name!r} of X holds dates or durations. Convert them to numbers, such as days "
            "since the first one, or leave the column out."
        )
    for row, value in enumerate(values):
        if is_missing(value):
            raise ValueError(
                f"column {name!r} of X has a missing value at row {row}. Fill missing values (a "
                'category "missing" will do) or leave the rows out.'
            )
    whole = (float, np.floating)
    return [
        str(int(value)) if isinstance(value, whole) and value.is_integer() else str(value)
        for value in values
    ]
