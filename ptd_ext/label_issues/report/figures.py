"""Figures of the report: heat maps, bars with whiskers, curves."""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptd_ext.label_issues.report.contents import Interval

__all__ = ["Bar", "Curve", "bar", "curve", "data_url", "heat_levels", "heat_picture", "png_size"]

HEAT_LEVELS = 9  # the classes .heat-0 to .heat-9 of the style sheet

# These colours show on a light and on a dark page, since a value is their opacity.
_MORE = (43, 116, 201)
_LESS = (211, 106, 26)
_STEPS = 127  # opacities on either side of zero

_WIDTH, _HEIGHT = 300, 120  # of a curve's view box
_MOST_POINTS = 1000


def heat_levels(values: np.ndarray) -> np.ndarray:
    """Map probabilities to colour levels 0 … 9 by their square roots, so that small ones show."""
    return np.rint(HEAT_LEVELS * np.sqrt(np.clip(values, 0, 1))).astype(int)


def heat_picture(values: np.ndarray) -> bytes:
    """A PNG of values [C, C] in [−1, 1], a pixel each: blue above zero, orange below."""
    indices = np.rint(np.clip(values, -1, 1) * _STEPS).astype(np.int16) + _STEPS
    opacities = [round(255 * abs(step) / _STEPS) for step in range(-_STEPS, _STEPS + 1)]
    palette = bytes(_LESS) * _STEPS + bytes(_MORE) * (_STEPS + 1)
    height, width = values.shape
    # In a PNG every line of pixels begins with the number of its filter; 0 is none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), indices.astype(np.uint8)], axis=1)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette),
            _chunk(b"tRNS", bytes(opacities)),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    sum_ = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + sum_


def data_url(png: bytes) -> str:
    """A PNG as a data URL, which embeds it in the page."""
    return "data:image/png;base64," + b64encode(png).decode("ascii")


def png_size(png: bytes) -> tuple[int, int]:
    """Width and height, which a PNG file holds after its signature and its first chunk's head."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@dataclass(frozen=True)
class Bar:
    """A bar with a whisker, in percent of its width."""

    estimate: float
    low: float
    high: float


def bar(interval: Interval, longest: float) -> Bar | None:
    """The bar of an interval where `longest` fills the width; None where nothing is known."""
    if math.isnan(interval.estimate):
        return None
    scale = 100 / longest
    values = (interval.estimate, interval.low, interval.high)
    return Bar(*(round(value * scale, 2) for value in values))


@dataclass(frozen=True)
class Curve:
    """A curve as the path of an SVG of 300 by 120, with the ends of its axes and a description."""

    name: str
    path: str
    top: str
    bottom: str
    epochs: int
    description: str


def curve(name: str, values: Sequence[float]) -> Curve | None:
    """A curve over epochs 1 … n, with gaps where a value is not finite; None without any."""
    every = np.asarray(values, dtype=float).reshape(-1)
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
        # A line without length is a dot, which shows a value that stands alone.
        path.extend([f"L{x:.1f} {y:.1f}"] if pen == "M" else [])
        pen = "L"
    description = (
        f"{name} over {len(every)} epochs: {finite[0]:.4g} at first, {finite[-1]:.4g} at last, "
        f"between {low:.4g} and {high:.4g}."
    )
    return Curve(name, "".join(path), f"{high:.4g}", f"{low:.4g}", len(every), description)


def _spread(length: int) -> list[int]:
    """At most a thousand positions from the first to the last."""
    if length <= _MOST_POINTS:
        return list(range(length))
    return np.linspace(0, length - 1, _MOST_POINTS).round().astype(int).tolist()
