"""The average transition matrix, and how the matrices of the parts differ from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptd_ext.label_issues.report.contents import ReportContents
from ptd_ext.label_issues.report.figures import data_url, heat_levels, heat_picture

__all__ = ["Confusion", "Part", "Parts", "Transition", "show_parts", "show_transition"]

_MOST_WITH_NUMBERS = 20  # classes
_MOST_WITH_PICTURE = 100  # classes; beyond, a cell is too small to be seen
_MOST_CONFUSIONS = 100
_MOST_PARTS = 10
_MOST_DIFFERENCES = 3  # of a part, in words


@dataclass(frozen=True)
class Confusion:
    """One entry of a matrix: true class, given label, probability or difference."""

    true: str
    given: str
    value: float


@dataclass(frozen=True)
class Transition:
    """The average T as a table of numbers, a picture, or a list of its largest entries."""

    cells: list[list[tuple[str, int]]] | None  # [C][C], percent and level of colour
    picture: str | None
    confusions: list[Confusion]


@dataclass(frozen=True)
class Part:
    """A part's matrix less the average."""

    number: int
    share: float
    distance: float
    picture: str | None
    differences: list[Confusion]


@dataclass(frozen=True)
class Parts:
    """The parts that differ most from the average, the most different first."""

    shown: list[Part]
    count: int
    scale: float  # the difference that has the strongest colour
    pictures: bool


def show_transition(transition: np.ndarray, names: list[str]) -> Transition:
    """Show numbers up to 20 classes, a picture up to 100, and the largest confusions beyond 20."""
    classes = len(names)
    if classes <= _MOST_WITH_NUMBERS:
        levels = heat_levels(transition)
        cells = [
            [(_entry(value), int(level)) for value, level in zip(*row, strict=True)]
            for row in zip(transition, levels, strict=True)
        ]
        return Transition(cells, None, [])
    picture = None
    if classes <= _MOST_WITH_PICTURE:
        picture = data_url(heat_picture(np.sqrt(np.clip(transition, 0, 1))))
    wrong = transition.copy()
    np.fill_diagonal(wrong, 0)
    return Transition(None, picture, _largest(wrong, names, _MOST_CONFUSIONS))


def show_parts(contents: ReportContents, names: list[str]) -> Parts | None:
    """P^j less the average T, for at most ten parts.

    The distance of a part is the mean over the true classes of the total variation distance between
    its row and the average's: the share of labels that would be given differently.
    """
    if contents.parts is None or len(contents.parts) < 2:
        return None
    differences = np.asarray(contents.parts, float) - np.asarray(contents.transition, float)
    distances = 0.5 * np.abs(differences).sum(2).mean(1)  # [R]
    order = np.argsort(-distances, kind="stable")[:_MOST_PARTS].tolist()
    scale = float(np.abs(differences[order]).max()) or 1.0
    pictures = len(names) <= _MOST_WITH_PICTURE
    shown = []
    for index in order:
        picture = data_url(heat_picture(differences[index] / scale)) if pictures else None
        share = float(np.asarray(contents.part_shares)[index])
        largest = _largest(differences[index], names, _MOST_DIFFERENCES)
        shown.append(Part(index + 1, share, float(distances[index]), picture, largest))
    return Parts(shown, len(contents.parts), scale, pictures)


def _largest(matrix: np.ndarray, names: list[str], most: int) -> list[Confusion]:
    """The entries that are largest in absolute value, without those that are zero."""
    size = np.abs(matrix).reshape(-1)
    order = np.argsort(-size, kind="stable")[:most]
    return [
        Confusion(names[index // len(names)], names[index % len(names)], float(value))
        for index, value in zip(order.tolist(), matrix.reshape(-1)[order], strict=True)
        if value
    ]


def _entry(value: float) -> str:
    """A probability in percent, short enough for a cell; empty if it is close to zero."""
    percent = 100 * value
    return f"{percent:.0f}" if percent >= 0.5 else ""
