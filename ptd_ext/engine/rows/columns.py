"""Columns of a data frame as numbers: numeric ones as they are, categories one-hot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Columns", "is_frame"]

_MOST_CATEGORIES = 200


def is_frame(X: Any) -> bool:  # noqa: N803
    """True if X is a data frame, of pandas or of a library that looks like it."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and hasattr(X, "shape")


@dataclass(frozen=True)
class Columns:
    """The columns of a data frame in their order.

    Attributes:
        names: the names of the columns.
        categories: the values of each column as text; None for a numeric column.
    """

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def fit(cls, frame: Any) -> Columns:
        """Find out which columns are numeric, and which values the others have."""
        if len(frame.columns) == 0 or len(frame) == 0:
            raise ValueError(f"X must have rows and columns; got {list(frame.shape)}.")
        repeated = [name for name, count in Counter(map(str, frame.columns)).items() if count > 1]
        if repeated:
            raise ValueError(f"X has several columns {repeated[0]!r}: give each a name of its own.")
        names: list[str] = []
        categories: list[tuple[str, ...] | None] = []
        for name in frame.columns:
            values = frame[name].to_numpy()
            names.append(str(name))
            if _is_numeric(values):
                categories.append(None)
                continue
            texts = _texts(name, values)
            found = tuple(sorted(set(texts)))
            if len(found) > min(_MOST_CATEGORIES, max(10, len(texts) // 2)):
                raise ValueError(
                    f"column {name!r} of X has {len(found):,} different values in {len(texts):,} "
                    "rows: it looks like an id or free text. Leave it out, or give embeddings of "
                    "the text as features."
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
        given = {str(name): name for name in frame.columns}
        missing = [name for name in self.names if name not in given]
        if missing:
            raise ValueError(f"X has no column {missing[0]!r}, which it had in fit.")
        blocks = []
        for name, categories in zip(self.names, self.categories, strict=True):
            values = frame[given[name]].to_numpy()
            if categories is None:
                blocks.append(_numbers(name, values)[:, None])
                continue
            index = {text: position for position, text in enumerate(categories)}
            codes = np.array([index.get(text, -1) for text in _texts(name, values)])
            blocks.append(np.equal.outer(codes, np.arange(len(categories))).astype(np.float64))
        return np.concatenate(blocks, axis=1)


def _is_numeric(values: NDArray[Any]) -> bool:
    if values.dtype.kind in "biuf":
        return True
    # Columns of pandas' own numeric types that hold missing values arrive as objects.
    return values.dtype == object and all(
        isinstance(each, (int, float, np.number)) or each is None or _is_na(each) for each in values
    )


def _is_na(value: Any) -> bool:
    return type(value).__name__ in ("NAType", "NaTType")


def _numbers(name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    if values.dtype.kind == "O":
        values = np.array(
            [np.nan if each is None or _is_na(each) else each for each in values], dtype=object
        )
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


def _texts(name: str, values: NDArray[Any]) -> list[str]:
    if values.dtype.kind in "mM":
        raise ValueError(
            f"column {name!r} of X holds dates or durations: turn them into numbers, such as days "
            "since a first one, or leave the column out."
        )
    for row, value in enumerate(values):
        if value is None or _is_na(value) or (isinstance(value, float) and value != value):
            raise ValueError(
                f"column {name!r} of X holds no value at row {row}. Fill missing values (a "
                'category "missing" will do) or leave the rows out.'
            )
    return [str(value) for value in values]
