"""Intervals of shares that are counted in stratified samples without replacement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ptd_ext.label_issues.rates import Interval, wilson_interval

UNKNOWN = Interval(math.nan, 0.0, 1.0)


@dataclass(frozen=True)
class Stratum:
    """Rows of which some were drawn at random and reviewed.

    Attributes:
        size: the number of rows.
        reviewed: how many of them were reviewed.
        wrong: how many of the reviewed labels are wrong.
    """

    size: int
    reviewed: int
    wrong: int

    def share(self) -> Interval:
        """The share of wrong labels: Wilson's interval, with the finite population correction."""
        if not self.reviewed:
            return UNKNOWN
        share = self.wrong / self.reviewed
        if self.reviewed == self.size:
            return Interval(share, share, share)
        correction = 1 - (self.reviewed - 1) / (self.size - 1)
        return wilson_interval(share, self.reviewed / correction)


def share_of_all(strata: Sequence[Stratum]) -> Interval:
    """The share of wrong labels in all strata, by the MOVER method.

    The distance of each limit from the estimate is the root of the sum of the squared distances in
    the strata (Zou and Donner, 2008).
    """
    strata = [each for each in strata if each.size]
    if not strata or any(not each.reviewed for each in strata):
        return UNKNOWN
    rows = sum(each.size for each in strata)
    shares = [(each.size / rows, each.share()) for each in strata]
    estimate = sum(weight * share.estimate for weight, share in shares)
    below = math.hypot(*(weight * (share.estimate - share.low) for weight, share in shares))
    above = math.hypot(*(weight * (share.high - share.estimate) for weight, share in shares))
    return Interval(estimate, max(0.0, estimate - below), min(1.0, estimate + above))


def share_within(part: Stratum, rest: Stratum) -> Interval:
    """The share of all wrong labels that are in `part`: MOVER for a ratio (Donner and Zou, 2012).

    With a and b the numbers of wrong labels in the rest and in the part, it is 1 / (1 + a/b).
    """
    if not part.size or (rest.size and not rest.reviewed):
        return UNKNOWN
    b, a = ((each.size, each.share()) for each in (part, rest))
    if not rest.size:
        a = (0, Interval(0.0, 0.0, 0.0))
    (size_a, share_a), (size_b, share_b) = a, b
    if not part.reviewed or (share_a.estimate == 0 and share_b.estimate == 0):
        return UNKNOWN
    found, low, high = (size_b * each for each in (share_b.estimate, share_b.low, share_b.high))
    missed, low_a, high_a = (
        size_a * each for each in (share_a.estimate, share_a.low, share_a.high)
    )
    smallest = _ratio(missed, low_a, found, high, sign=-1)
    largest = _ratio(missed, high_a, found, low, sign=1)
    return Interval(found / (found + missed), 1 / (1 + largest), 1 / (1 + smallest))


def _ratio(a: float, limit_a: float, b: float, limit_b: float, sign: int) -> float:
    """The limit of a/b that the opposite limits of a and b lead to."""
    divisor = limit_b * (2 * b - limit_b)
    if divisor <= 0:  # b may be zero, or its interval is too wide for an approximation
        return math.inf if sign > 0 else 0.0
    inside = (a * b) ** 2 - limit_a * (2 * a - limit_a) * divisor
    return max(0.0, (a * b + sign * math.sqrt(max(0.0, inside))) / divisor)
