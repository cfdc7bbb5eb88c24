"""Figures for the report: heat maps and curves."""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

HEAT_LEVELS = 9  # the classes .heat-0 to .heat-9 in the style sheet

# Values set the opacity, so that these colours suit a light and a dark page.
_POSITIVE = (43, 116, 201)
_NEGATIVE = (211, 106, 26)
_STEPS = 127  # opacities on either side of zero

_WIDTH, _HEIGHT = 300, 120  # view box of a curve
_MAX_POINTS = 1000


def heat_levels(values: np.ndarray) -> np.ndarray:
    """Map probabilities to colour levels 0 … 9 by square root, which keeps small ones visible."""
    return np.rint(HEAT_LEVELS * np.sqrt(np.clip(values, 0, 1))).astype(int)


def heat_picture(values: np.ndarray) -> bytes:
    """Draw values [C, C] in [−1, 1] as a PNG, one pixel each: blue above zero, orange below."""
    indices = np.rint(np.clip(values, -1, 1) * _STEPS).astype(np.int16) + _STEPS
    opacities = [round(255 * abs(step) / _STEPS) for step in range(-_STEPS, _STEPS + 1)]
    palette = bytes(_NEGATIVE) * _STEPS + bytes(_POSITIVE) * (_STEPS + 1)
    height, width = values.shape
    # Each line of pixels in a PNG begins with the number of its filter; 0 means none.
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
    """Encode a PNG as a data URL, which embeds it in the page."""
    return "data:image/png;base64," + b64encode(png).decode("ascii")


def png_size(png: bytes) -> tuple[int, int]:
    """Read width and height from the header of a PNG file."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height


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
