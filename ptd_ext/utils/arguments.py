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
        if number >= least and (most is None or number <= most):
            return number
    except TypeError:
        pass
    wanted = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ValueError(f"{name} must be a whole number {wanted}; got {value!r}.")


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
