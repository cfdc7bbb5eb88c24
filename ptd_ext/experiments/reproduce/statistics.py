"""Means, standard deviations and the significance test of the paper."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over a number of runs; NaN where they are not defined."""

    mean: float = math.nan
    std: float = math.nan
    count: int = 0

    def text(self, digits: int = 2) -> str:
        """Format the mean and its standard deviation, if it has one."""
        deviation = "" if math.isnan(self.std) else f" ± {self.std:.{digits}f}"
        return f"{self.mean:.{digits}f}{deviation}"


def summarise(values: Sequence[float]) -> Summary:
    """Mean and sample standard deviation, ddof = 1: the seeds are a sample of all seeds."""
    if not values:
        return Summary()
    # This module computes exactly, so that equal runs have a deviation of 0.
    std = statistics.stdev(values) if len(values) > 1 else math.nan
    return Summary(float(statistics.mean(values)), std, len(values))


def p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Student's t-test of two independent samples: equal variances, two-sided.

    Appendix D of the paper names a "two independent samples t-test". It is two-sided, because the
    paper has p-values above 0.5 where PTD-R-V has the higher mean.

    Returns:
        The p-value; NaN for fewer than two runs on a side, and for runs that do not vary.
    """
    if min(len(first), len(second)) < 2 or summarise(first).std == summarise(second).std == 0:
        return math.nan
    from scipy import stats  # slow to import, and needed for reports only

    return float(stats.ttest_ind(first, second, equal_var=True).pvalue)
