"""Figures for the report: levels of heat maps, and curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

HEAT_LEVELS = 9  # the classes .heat-0 to .heat-9 in the style sheet

_WIDTH, _HEIGHT = 300, 120  # view box of a curve
_MAX_POINTS = 1000


def heat_levels(values: np.ndarray) -> np.ndarray:
    """Map probabilities to colour levels 0 … 9 by square root, which keeps small ones visible."""
    return np.rint(HEAT_LEVELS * np.sqrt(np.clip(values, 0, 1))).astype(int)


@dataclass(frozen=True)
class Curve:
    """A curve as an SVG path in a view box of 300 × 120, its axis limits and a description."""

    name: str
    path: str
    top: str
    bottom: str
    epochs: int
    description: str


def curve(name: str, values: Sequence[float]) -> Curve | None:
    """Draw a curve over epochs 1 … n, with gaps at non-finite values; None if all are."""
    every = np.asarray(values, dtype=float)
    finite = every[np.isfinite(every)]
    if not len(finite):
        return None
    low, high = finite.min(), finite.max()
    span = high - low or 1.0
    across = _WIDTH / max(len(every) - 1, 1)
    path, pen = [], "M"
    for epoch in _spread(len(every)):
        value = every[epoch]
        if not math.isfinite(value):
            pen = "M"
            continue
        x, y = epoch * across, _HEIGHT * (high - value) / span
        path.append(f"{pen}{x:.1f} {y:.1f}")
        # A line of zero length draws a dot, which shows an isolated value.
        path.extend([f"L{x:.1f} {y:.1f}"] if pen == "M" else [])
        pen = "L"
    description = (
        f"{name} over {len(every)} epochs: from {finite[0]:.4g} to {finite[-1]:.4g}, "
        f"minimum {low:.4g}, maximum {high:.4g}."
    )
    return Curve(name, "".join(path), f"{high:.4g}", f"{low:.4g}", len(every), description)


def _spread(length: int) -> list[int]:
    """Evenly spaced positions from the first to the last, at most a thousand."""
    if length <= _MAX_POINTS:
        return list(range(length))
    return np.linspace(0, length - 1, _MAX_POINTS).round().astype(int).tolist()
