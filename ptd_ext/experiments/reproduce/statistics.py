"""Means, spreads and the paper's significance test, of a few accuracies each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Summary", "p_value", "summarise"]


@dataclass(frozen=True)
class Summary:
    """The mean of some runs, their standard deviation (NaN for a single run) and their number."""

    mean: float
    std: float
    count: int


def summarise(values: Sequence[float]) -> Summary:
    """Mean and sample standard deviation, ddof = 1: the seeds are a sample of all seeds."""
    count = len(values)
    if not count:
        return Summary(math.nan, math.nan, 0)
    mean = math.fsum(values) / count
    if count == 1:
        return Summary(mean, math.nan, 1)
    # Around the first value: equal runs have a spread of exactly 0, whatever their mean rounds to.
    shifted = [value - values[0] for value in values]
    centre = math.fsum(shifted) / count
    variance = math.fsum((value - centre) ** 2 for value in shifted) / (count - 1)
    return Summary(mean, math.sqrt(variance), count)


def p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Student's t-test of two independent samples: equal variances, two-sided.

    The paper's appendix D names "two independent samples t-test", no more. Two-sided, because it
    has p-values above 0.5 where PTD-R-V has the higher mean, which a one-sided test cannot give.

    NaN where nothing can be tested: fewer than two runs on a side, or runs that do not vary.
    """
    if len(first) < 2 or len(second) < 2:
        return math.nan
    one, two = summarise(first), summarise(second)
    if one.std == 0 and two.std == 0:
        return math.nan
    # Imported here: only a report needs it, and `--help` should not wait for it.
    from scipy import stats

    return float(stats.ttest_ind(first, second, equal_var=True).pvalue)
