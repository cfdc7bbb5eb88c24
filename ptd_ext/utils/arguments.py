"""Checks of numbers that callers pass as arguments."""

from __future__ import annotations

import math
import operator
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np


def check_integer(value: Any, name: str, minimum: int = 1, maximum: int | None = None) -> int:
    """Return the argument `name` as an int; integers of NumPy and torch are accepted too."""
    try:
        number = operator.index(value)
        if number >= minimum and (maximum is None or number <= maximum):
            return number
    except TypeError:
        pass
    wanted = f">= {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    raise ValueError(f"{name} must be an integer {wanted}; got {value!r}.")


def check_nonnegative(value: Any, name: str, *, finite: bool = True) -> float:
    """Return the argument `name` as a float >= 0."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number; got {value!r}.") from None
    if not number >= 0 or (finite and number == math.inf):
        raise ValueError(
            f"{name} must be at least 0{' and finite' if finite else ''}; got {value}."
        )
    return number


def check_share(value: Any, name: str) -> float:
    """Return the argument `name` as a float from 0 to 1."""
    try:
        if 0 <= float(value) <= 1 and not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} must be from 0 to 1; got {value!r}.")


def is_complex(values: Any) -> bool:
    """True for an array of complex numbers, or of objects some of which are complex numbers."""
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    return kind == "c" or (
        kind == "O" and any(isinstance(each, (complex, np.complexfloating)) for each in values.flat)
    )


def check_same_index(**given: Any) -> None:
    """Raise if two of the arguments are pandas objects with the same index in another order.

    Their rows are paired by position, as everywhere in scikit-learn, which would exchange labels.
    """
    named = [(name, each) for name, each in given.items() if has_index(each)]
    for (name, each), (other_name, other) in combinations(named, 2):
        first, second = each.index, other.index
        if len(first) != len(second) or first.equals(second):
            continue
        try:
            exchanged = Counter(first) == Counter(second)
        except TypeError:  # an index of values that cannot be looked up
            continue
        if exchanged and list(first) != list(second):
            by_index = f"{other_name}.loc[{name}.index] to pair rows by index, or "
            raise ValueError(
                f"{other_name} must have the index of {name} in the same order; it has the same "
                f"index in another order. Give {by_index if first.is_unique else ''}"
                f"{other_name}.to_numpy() to pair them by position."
            )


def has_index(values: Any) -> bool:
    """True for a series or a data frame of pandas, whose rows have an index."""
    return hasattr(values, "iloc") and hasattr(values, "index")
