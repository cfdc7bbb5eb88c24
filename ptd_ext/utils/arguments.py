"""Numbers among the arguments of a function, checked at the door."""

from __future__ import annotations

import math
import operator
from typing import Any

__all__ = ["not_negative", "whole_number"]


def whole_number(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """The argument `name` as an int, NumPy's and torch's whole numbers too."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number; got {value!r}.") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}; got {number}.")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}; got {number}.")
    return number


def not_negative(value: Any, name: str, *, finite: bool = True) -> float:
    """The argument `name` as a float of at least 0, no NaN."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number; got {value!r}.") from None
    if not number >= 0 or (finite and number == math.inf):
        raise ValueError(
            f"{name} must be at least 0{' and finite' if finite else ''}; got {value}."
        )
    return number
