"""How many labels are wrong, and which of them to flag."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Interval",
    "NoiseRate",
    "check_flag_share",
    "flag_issues",
    "noise_rate",
    "wilson_interval",
]

_MANY_ROWS = 2000  # with which both estimates of the rate count alike
_QUANTILE = 1.959963984540054  # of the normal distribution, for an interval of 95 %


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; the estimate is NaN where nothing can be said."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.1%} ({self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class NoiseRate:
    """The share of labels that are wrong.

    The intervals are those of a share counted in a sample of this size. They are right if the
    model's probabilities are, and do not include the model's own error.

    Attributes:
        overall: the rate among all labels.
        by_class: the rate among the labels that name each class, in the order of the classes.
    """

    overall: Interval
    by_class: tuple[Interval, ...]

    def __float__(self) -> float:
        return self.overall.estimate


def wilson_interval(share: float, count: int) -> Interval:
    """The interval of a share of `count` draws, by Wilson's score."""
    if count == 0:
        return Interval(math.nan, 0.0, 1.0)
    z2 = _QUANTILE**2 / count
    centre = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(share * (1 - share) * z2 + z2 * z2 / 4) / (1 + z2)
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def noise_rate(
    label_quality: NDArray[np.float64],
    given: NDArray[np.int64],
    classes: int,
    joint: NDArray[np.float64] | None = None,
) -> NoiseRate:
    """Estimate the share of wrong labels, overall and by given label.

    A wrong label is a draw with probability 1 − quality, so that the variance of the counted share
    is that of a binomial share: the part within the rows and the part between them add up to it.

    For rows that the model was not trained on, the estimate is the mean of 1 − quality. A model
    trusts labels that it was trained on too much, the more the fewer they are, and that mean is too
    low. The rate that its T(x) expects of the rows, whatever their labels are, is free of that, but
    a model with errors of its own takes them for noise, however many rows there are. With `joint`
    the estimate therefore goes over from this rate to that mean as the rows become many.

    Args:
        label_quality: P(true label = given label | x, given label), [N].
        given: class indices, [N].
        classes: C.
        joint: P(true class, given label) that the model expects of a row, [C, C], if it was trained
            on these rows.
    """
    doubt = 1 - np.asarray(label_quality, dtype=np.float64)
    counts = np.bincount(given, minlength=classes)
    shares = np.bincount(given, weights=doubt, minlength=classes) / np.maximum(counts, 1)
    if joint is not None:
        named = joint.sum(0)
        right = np.divide(joint.diagonal(), named, out=np.ones(classes), where=named > 0)
        shares += (1 - right - shares) / (1 + len(given) / _MANY_ROWS)
    overall = float(counts @ shares / len(given)) if len(given) else math.nan
    return NoiseRate(
        wilson_interval(overall, len(given)),
        tuple(
            wilson_interval(float(share) if count else math.nan, int(count))
            for share, count in zip(shares, counts, strict=True)
        ),
    )


def check_flag_share(flag_share: Any) -> None:
    """Raise for a share that no number of rows follows from."""
    if not isinstance(flag_share, (int, float, np.number)) or not 0 <= flag_share < math.inf:
        raise ValueError(f"flag_share must be finite and not negative; got {flag_share}.")


def flag_issues(
    label_quality: NDArray[np.float64],
    given: NDArray[np.int64],
    rates: NoiseRate,
    flag_share: float = 1.0,
) -> NDArray[np.bool_]:
    """Flag, for each given label, as many of the most doubtful rows as are estimated to be wrong.

    Args:
        label_quality: P(true label = given label | x, given label), [N].
        given: class indices, [N].
        rates: the estimated rates of wrong labels.
        flag_share: how many rows to flag in units of that number: below 1 flags fewer rows, of
            which more are truly wrong; above 1 misses fewer wrong labels.
    """
    flagged = np.zeros(len(given), dtype=bool)
    for label, rate in enumerate(rates.by_class):
        rows = np.flatnonzero(given == label)
        if len(rows):
            count = min(len(rows), round(flag_share * rate.estimate * len(rows)))
            flagged[rows[np.argsort(label_quality[rows], kind="stable")[:count]]] = True
    return flagged
