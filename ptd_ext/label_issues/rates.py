"""How many labels are wrong, and which of them to flag."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.utils.html import table

_MANY_ROWS = 2000  # both estimates of the rate have equal weight at this number
_QUANTILE = 1.959963984540054  # normal quantile for a 95 % interval


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; NaN for a class that no label names."""

    estimate: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """False for a class that no label names."""
        return not math.isnan(self.estimate)

    def __str__(self) -> str:
        return f"{self.estimate:.1%} ({self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True, repr=False)
class NoiseRate:
    """The share of labels that are wrong.

    The intervals are those of a share counted in a sample of this size. They assume that the
    probabilities of the model are calibrated, and do not include its error.

    Attributes:
        overall: the rate among all labels.
        by_class: the rate among the labels of each given class, in the order of the classes.
    """

    overall: Interval
    by_class: tuple[Interval, ...]

    def __float__(self) -> float:
        return self.overall.estimate

    def __str__(self) -> str:
        return str(self.overall)

    def __repr__(self) -> str:
        return f"NoiseRate({self.overall}, {len(self.by_class)} classes)"

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, names: Sequence[str] | None = None) -> str:
        """The rates as HTML, for notebooks.

        Args:
            names: the classes, [C]; by default 0 … C − 1.
        """
        names = [str(label) for label in range(len(self.by_class))] if names is None else names
        rates = [("all", self.overall), *zip(names, self.by_class, strict=True)]
        rows = [
            (name, f"{each.estimate:.1%}" if each.known else "unknown", _between(each))
            for name, each in rates
        ]
        return table(("given label", "wrong", "95 % interval"), rows)


def _between(interval: Interval) -> str:
    return f"{interval.low:.1%} to {interval.high:.1%}" if interval.known else ""


def wilson_interval(share: float, count: float) -> Interval:
    """Wilson's score interval of a share of `count` draws."""
    if count == 0:
        return Interval(math.nan, 0.0, 1.0)
    z2 = _QUANTILE**2 / count
    centre = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(share * (1 - share) * z2 + z2 * z2 / 4) / (1 + z2)
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def noise_rate(
    label_quality: NDArray[np.float64],
    given: NDArray[np.int64],
    n_classes: int,
    joint: NDArray[np.float64] | None = None,
) -> NoiseRate:
    """Estimate the share of wrong labels, overall and by given label.

    A label is wrong with probability 1 − quality, so that the variance of the counted share is that
    of a binomial share: the variances within and between the rows add up to it.

    For rows that the model was not trained on, the estimate is the mean of 1 − quality. For rows of
    the training set, that mean is too low, the more so the fewer they are, since a model partly
    memorises their labels. The rate that T(x) implies does not depend on the labels, but counts
    errors of the model as noise, however many rows there are. With `joint`, the estimate therefore
    moves from the rate of T(x) to the mean of 1 − quality as the number of rows grows.

    Args:
        label_quality: P(true label = given label | x, given label), [N].
        given: class indices, [N].
        n_classes: C.
        joint: P(true class, given label) that the model expects of a row, [C, C], if it was trained
            on these rows.
    """
    doubt = 1 - np.asarray(label_quality, dtype=np.float64)
    counts = np.bincount(given, minlength=n_classes)
    shares = np.bincount(given, weights=doubt, minlength=n_classes) / np.maximum(counts, 1)
    if joint is not None:
        named = joint.sum(0)
        right = np.divide(joint.diagonal(), named, out=np.ones(n_classes), where=named > 0)
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
    """Raise ValueError unless the share is a finite number of at least 0."""
    if not isinstance(flag_share, (int, float, np.number)) or not 0 <= flag_share < math.inf:
        raise ValueError(f"flag_share must be a finite number of at least 0; got {flag_share!r}.")


def flag_issues(
    label_quality: NDArray[np.float64],
    given: NDArray[np.int64],
    rates: NoiseRate,
    flag_share: float = 1.0,
) -> NDArray[np.bool_]:
    """For each given label, flag as many rows of lowest quality as are estimated to be wrong.

    Args:
        label_quality: P(true label = given label | x, given label), [N].
        given: class indices, [N].
        rates: the estimated rates of wrong labels.
        flag_share: the number of flagged rows over that estimate: below 1 raises precision, above
            1 raises recall.
    """
    flagged = np.zeros(len(given), dtype=bool)
    for label, rate in enumerate(rates.by_class):
        rows = np.flatnonzero(given == label)
        if len(rows):
            count = min(len(rows), round(flag_share * rate.estimate * len(rows)))
            flagged[rows[np.argsort(label_quality[rows], kind="stable")[:count]]] = True
    return flagged
