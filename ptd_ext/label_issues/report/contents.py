"""The findings that a report is made from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ptd_ext.label_issues.rates import Interval

__all__ = ["Interval", "ReportContents", "Sample", "check_contents"]

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Sample:
    """How one sample is shown: exactly one of the three is given.

    Attributes:
        png: an image file. The page shows it some 200 pixels wide, so a larger one only costs room.
        text: plain text.
        row: the columns of a table's row, name to value.
    """

    png: bytes | None = None
    text: str | None = None
    row: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("png", "text", "row") if getattr(self, name) is not None]
        if len(given) != 1:
            names = " and ".join(given) or "none"
            raise ValueError(f"A Sample takes exactly one of png, text and row; got {names}.")
        if self.png is not None and not (
            self.png.startswith(_PNG_SIGNATURE) and len(self.png) > 32
        ):
            raise ValueError("png must be the bytes of a PNG file; these are not.")


@dataclass(frozen=True)
class ReportContents:
    """Everything :func:`ptd_ext.label_issues.report.write_report` shows.

    Attributes:
        title: the page's heading.
        class_names: C names.
        ids: N ids of the rows, as text.
        given: [N] int, the given label as an index into `class_names`.
        suggested: [N] int, the label suggested instead.
        label_quality: [N], P(Y = given | x, given).
        suggested_probability: [N], P(Y = suggested | x, given).
        is_label_issue: [N] bool.
        noise_rate: the rate among all labels.
        noise_rate_by_class: C rates, by given label.
        transition: [C, C], the average of T(x): row the true class, column the given label.
        parts: [R, C, C], the transition matrices that T(x) is a mixture of.
        part_shares: [R], the mean weight of every part.
        warnings: reasons for distrust, in whole sentences.
        facts: name to value, shown under the heading.
        curves: name to a value per epoch.
        sample: a function from i to how sample i is shown; without it the page shows only ids and
            labels.
    """

    title: str
    class_names: Sequence[str]
    ids: Sequence[str]
    given: np.ndarray
    suggested: np.ndarray
    label_quality: np.ndarray
    suggested_probability: np.ndarray
    is_label_issue: np.ndarray
    noise_rate: Interval
    noise_rate_by_class: Sequence[Interval]
    transition: np.ndarray
    parts: np.ndarray | None = None
    part_shares: np.ndarray | None = None
    warnings: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sample: Callable[[int], Sample] | None = None


def check_contents(contents: ReportContents) -> None:
    """Raise a ValueError that says which of the contents do not fit together."""
    classes, samples = len(contents.class_names), len(contents.ids)
    if not classes:
        raise ValueError("class_names must name at least one class; got none.")
    for name in ("given", "suggested"):
        labels = np.asarray(getattr(contents, name))
        _check_shape(name, labels, (samples,))
        if labels.dtype.kind not in "iu":
            raise ValueError(f"{name} must hold integers; got {labels.dtype}.")
        if samples and not (labels.min() >= 0 and labels.max() < classes):
            raise ValueError(
                f"{name} must be indices into the {classes} class_names; "
                f"got {labels.min()} to {labels.max()}."
            )
    for name in ("label_quality", "suggested_probability"):
        values = np.asarray(getattr(contents, name))
        _check_shape(name, values, (samples,))
        _check_probabilities(name, values)
    flags = np.asarray(contents.is_label_issue)
    _check_shape("is_label_issue", flags, (samples,))
    if flags.dtype != bool:
        raise ValueError(f"is_label_issue must hold booleans; got {flags.dtype}.")
    if len(contents.noise_rate_by_class) != classes:
        raise ValueError(
            f"noise_rate_by_class must have one Interval for each of the {classes} classes; "
            f"got {len(contents.noise_rate_by_class)}."
        )
    _check_interval("noise_rate", contents.noise_rate)
    for name, interval in zip(contents.class_names, contents.noise_rate_by_class, strict=True):
        _check_interval(f"noise_rate_by_class of {name!r}", interval)
    _check_shape("transition", np.asarray(contents.transition), (classes, classes))
    _check_probabilities("transition", np.asarray(contents.transition))
    if contents.parts is not None:
        parts = np.asarray(contents.parts)
        _check_shape("parts", parts, (len(parts), classes, classes))
        _check_probabilities("parts", parts)
        if contents.part_shares is None:
            raise ValueError("part_shares must be given with parts: the mean weight of every part.")
        _check_shape("part_shares", np.asarray(contents.part_shares), (len(parts),))
        _check_probabilities("part_shares", np.asarray(contents.part_shares))


def _check_shape(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise ValueError(f"{name} must have the shape {list(shape)}; got {list(values.shape)}.")


def _check_probabilities(name: str, values: np.ndarray) -> None:
    # Rounding in float32 may leave a probability a little outside of [0, 1].
    wrong = ~((values >= -1e-4) & (values <= 1 + 1e-4))
    if wrong.any():
        where = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise ValueError(
            f"{name} must be probabilities; got {values[where]} at {list(where)}, "
            f"and {int(wrong.sum())} such entries in all."
        )


def _check_interval(name: str, interval: Interval) -> None:
    if math.isnan(interval.estimate):  # nothing is known of a class that no label names
        return
    if not -1e-9 <= interval.low <= interval.estimate <= interval.high <= 1 + 1e-9:
        raise ValueError(f"{name} must have 0 ≤ low ≤ estimate ≤ high ≤ 1; got {interval}.")
