"""PNG files: heat maps of matrices, data URLs, sizes."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np

# Values set the opacity, so that these colours suit a light and a dark page.
POSITIVE = (43, 116, 201)
_NEGATIVE = (211, 106, 26)
_STEPS = 127  # opacities on either side of zero


def heat_picture(values: np.ndarray) -> bytes:
    """Draw values [C, C] in [−1, 1] as a PNG, one pixel each: blue above zero, orange below."""
    indices = np.rint(np.clip(values, -1, 1) * _STEPS).astype(np.int16) + _STEPS
    opacities = [round(255 * abs(step) / _STEPS) for step in range(-_STEPS, _STEPS + 1)]
    palette = bytes(_NEGATIVE) * _STEPS + bytes(POSITIVE) * (_STEPS + 1)
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
