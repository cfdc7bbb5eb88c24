"""The mean transition matrix, and how the matrices of the parts differ from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptd_ext.label_issues.report.figures import heat_levels
from ptd_ext.utils.png import data_url, heat_picture

_MAX_CLASSES_AS_TABLE = 20
_MAX_CLASSES_AS_PICTURE = 100  # beyond, cells are too small to see
_MAX_CONFUSIONS = 100
_MAX_PARTS = 10
_MAX_DIFFERENCES = 3  # listed for each part


@dataclass(frozen=True)
class Confusion:
    """One entry of a matrix: true class, given label, probability or difference."""

    true: str
    given: str
    value: float


@dataclass(frozen=True)
class ShownMatrix:
    """The mean T as a table of numbers, a picture, or a list of its largest entries."""

    cells: list[list[tuple[str, int]]] | None  # [C][C], percentage and colour level
    picture: str | None
    confusions: list[Confusion]


@dataclass(frozen=True)
class Part:
    """The matrix of a part minus the mean T."""

    number: int
    share: float
    distance: float
    picture: str | None
    differences: list[Confusion]


@dataclass(frozen=True)
class Parts:
    """The parts that differ most from the mean T, in descending order of distance."""

    shown: list[Part]
    count: int
    scale: float  # the difference drawn in the strongest colour
    pictures: bool


def show_transition(transition: np.ndarray, names: list[str]) -> ShownMatrix:
    """Numbers for up to 20 classes; beyond, the largest confusions and, up to 100, a picture."""
    classes = len(names)
    if classes <= _MAX_CLASSES_AS_TABLE:
        levels = heat_levels(transition)
        cells = [
            [(_entry(value), int(level)) for value, level in zip(*row, strict=True)]
            for row in zip(transition, levels, strict=True)
        ]
        return ShownMatrix(cells, None, [])
    picture = None
    if classes <= _MAX_CLASSES_AS_PICTURE:
        picture = data_url(heat_picture(np.sqrt(np.clip(transition, 0, 1))))
    wrong = transition.copy()
    np.fill_diagonal(wrong, 0)
    return ShownMatrix(None, picture, _largest(wrong, names, _MAX_CONFUSIONS))


def show_parts(
    parts: np.ndarray, part_shares: np.ndarray, transition: np.ndarray, names: list[str]
) -> Parts | None:
    """P^j minus the mean T, for at most ten parts; None for a single part.

    The distance of a part is the total variation distance between its row and that of the mean T,
    averaged over the true classes: the share of labels that would be given differently.
    """
    if len(parts) < 2:
        return None
    differences = parts - transition
    distances = 0.5 * np.abs(differences).sum(2).mean(1)  # [R]
    order = np.argsort(-distances, kind="stable")[:_MAX_PARTS].tolist()
    scale = float(np.abs(differences[order]).max()) or 1.0
    pictures = len(names) <= _MAX_CLASSES_AS_PICTURE
    shown = []
    for index in order:
        picture = data_url(heat_picture(differences[index] / scale)) if pictures else None
        largest = _largest(differences[index], names, _MAX_DIFFERENCES)
        shown.append(
            Part(index + 1, float(part_shares[index]), float(distances[index]), picture, largest)
        )
    return Parts(shown, len(parts), scale, pictures)


def _largest(matrix: np.ndarray, names: list[str], count: int) -> list[Confusion]:
    """The nonzero entries of largest absolute value."""
    size = np.abs(matrix).reshape(-1)
    order = np.argsort(-size, kind="stable")[:count]
    return [
        Confusion(names[index // len(names)], names[index % len(names)], float(value))
        for index, value in zip(order.tolist(), matrix.reshape(-1)[order], strict=True)
        if value
    ]


def _entry(value: float) -> str:
    """A probability in percent for a cell; empty if it rounds to zero."""
    percent = 100 * value
    return f"{percent:.0f}" if percent >= 0.5 else ""
