"""HTML fragments for notebooks, in colours that suit a light and a dark background."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.utils.png import POSITIVE, data_url, heat_picture

_MAX_CLASSES_AS_TABLE = 12
_MAX_CLASSES_AS_PICTURE = 100  # beyond, cells are too small to see
_MAX_CONFUSIONS = 5
_LEFT = "text-align:left;padding:.15em .6em"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; cells are escaped, except those of type :class:`Markup`."""
    lines = ["".join(f'<th style="{_LEFT}">{markup(name)}</th>' for name in head)]
    lines += ["".join(f'<td style="{_LEFT}">{markup(cell)}</td>' for cell in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-collapse:collapse">{body}</table>'


class Markup(str):
    """HTML that is not escaped again."""


def markup(value: Any) -> Markup:
    """The value as HTML: escaped, unless it is HTML already."""
    return value if isinstance(value, Markup) else Markup(escape(str(value)))


def picture(png: bytes, side: str) -> Markup:
    """A picture, whole, in a square of this side."""
    style = f"width:{side};height:{side};object-fit:contain;image-rendering:pixelated"
    return Markup(f'<img alt="" src="{data_url(png)}" style="{style}">')


def heat_map(matrix: NDArray[Any], names: Sequence[str] | None = None) -> str:
    """T, [C, C]: in numbers up to 12 classes; beyond, a picture up to 100 and the largest entries.

    Args:
        matrix: probabilities; rows are true classes, columns are labels.
        names: the classes, [C]; by default 0 … C − 1.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    names = [str(name) for name in (range(len(matrix)) if names is None else names)]
    about = "<p>Mean T(x) in per cent: rows are true classes, columns are labels.</p>"
    if len(matrix) <= _MAX_CLASSES_AS_TABLE:
        return about + _numbers(matrix, names)
    shown = about
    if len(matrix) <= _MAX_CLASSES_AS_PICTURE:
        shown += picture(heat_picture(np.sqrt(np.clip(matrix, 0, 1))), "14em")
    wrong = matrix.copy()
    np.fill_diagonal(wrong, 0)
    largest = np.argsort(-wrong, axis=None, kind="stable")[:_MAX_CONFUSIONS]
    rows = [
        (names[i], names[k], f"{wrong[i, k]:.1%}")
        for i, k in zip(*np.unravel_index(largest, wrong.shape), strict=True)
        if wrong[i, k] > 0
    ]
    return shown + table(("true class", "label", "probability"), rows)


def _numbers(matrix: NDArray[np.float64], names: Sequence[str]) -> str:
    head = "".join(f'<th style="{_LEFT}">{escape(name)}</th>' for name in names)
    lines = [f"<th></th>{head}"]
    for name, row in zip(names, matrix.tolist(), strict=True):
        cells = "".join(
            f'<td style="text-align:right;padding:.15em .6em;'
            # The square root keeps small values visible, half the opacity keeps text legible.
            f'background:rgba{(*POSITIVE, round(0.5 * max(value, 0) ** 0.5, 3))}">'
            f"{100 * value:.0f}</td>"
            for value in row
        )
        lines.append(f'<th style="{_LEFT}">{escape(name)}</th>{cells}')
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-collapse:collapse">{body}</table>'
