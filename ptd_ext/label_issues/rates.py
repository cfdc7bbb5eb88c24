"""How many labels are wrong, and which of them to flag."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.utils.html import table

_SMALLEST = 1e-12  # smallest divisor
QUANTILE = 1.959963984540054  # normal quantile for a 95 % interval


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

    The estimate is the mean of 1 − quality. The interval includes the sampling error and the error
    of the model: below its lower end, the labels would be clearly less likely; at its upper end,
    every label that differs from the most probable class is wrong. Wrong labels that a model can
    learn, such as those by rules, are not included; only verified labels show them.

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
    z2 = QUANTILE**2 / count
    centre = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(share * (1 - share) * z2 + z2 * z2 / 4) / (1 + z2)
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def noise_rate(
    label_quality: NDArray[np.float64],
    given: NDArray[np.int64],
    n_classes: int,
    rate_range: tuple[float, float] | None = None,
) -> NoiseRate:
    """Estimate the share of wrong labels, overall and by given label.

    A label is wrong with probability 1 − quality; the estimate is the mean.

    Args:
        label_quality: P(true label = given label | x, given label), [N].
        given: class indices, [N].
        n_classes: C.
        rate_range: the range of the overall rate. The ranges of the classes are as wide in
            proportion, and wider by the sampling error. By default only this error is included.
    """
    doubt = 1 - np.asarray(label_quality, dtype=np.float64)
    counts = np.bincount(given, minlength=n_classes)
    sums = np.bincount(given, weights=doubt, minlength=n_classes)
    if not len(given):
        return NoiseRate(wilson_interval(math.nan, 0), (wilson_interval(math.nan, 0),) * n_classes)
    overall = wilson_interval(float(doubt.mean()), len(given))
    factor, added = 1.0, 0.0
    if rate_range is not None:
        low, high = min(rate_range[0], overall.estimate), max(rate_range[1], overall.estimate)
        overall = Interval(overall.estimate, low, high)
        factor = low / max(overall.estimate, _SMALLEST)
        added = (high - overall.estimate) / max(1 - overall.estimate, _SMALLEST)
    by_class = []
    for total, count in zip(sums.tolist(), counts.tolist(), strict=True):
        share = total / count if count else math.nan
        low = wilson_interval(share * factor, count).low
        high = wilson_interval(share + (1 - share) * added, count).high
        by_class.append(Interval(share, low, high))
    return NoiseRate(overall, tuple(by_class))


def check_flag_share(flag_share: Any) -> None:
    """Raise ValueError unless the share is a finite number of at least 0."""
    if not isinstance(flag_share, (int, float, np.number)) or not 0 <= flag_share < math.inf:
        raise ValueError(f"flag_share must be a finite number of at least 0; got {flag_share!r}.")


def flag_issues(
    posterior: NDArray[np.floating[Any]], given: NDArray[np.int64], flag_share: float = 1.0
) -> NDArray[np.bool_]:
    """Flag the rows of which another class is more probable than the given label.

    Args:
        posterior: P(true label | x, given label), [N, C].
        given: class indices, [N].
        flag_share: the number of flagged rows over the number of these; below 1 the rows of lowest
            quality among them, above 1 also rows of lowest quality among the others.
    """
    quality = posterior[np.arange(len(given)), given]
    disputed = posterior.max(1, initial=0.0) > quality
    count = min(len(given), round(flag_share * int(disputed.sum())))
    flagged = np.zeros(len(given), dtype=bool)
    flagged[np.lexsort((quality, ~disputed))[:count]] = True
    return flagged
