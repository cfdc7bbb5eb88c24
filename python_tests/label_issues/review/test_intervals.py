"""Intervals of stratified samples: limits by hand, and their coverage in simulations."""

import math

import numpy as np
import pytest

from ptd_ext.label_issues.review.intervals import Stratum, share_of_all, share_within


def test_a_stratum_that_was_reviewed_whole_has_no_error():
    share = Stratum(40, 40, 10).share()
    assert (share.low, share.estimate, share.high) == (0.25, 0.25, 0.25)


def test_wilson_with_the_finite_population_correction():
    # n = 50 / (1 − 49/99) = 99; z² = 3.8415
    share = Stratum(100, 50, 10).share()
    n, p, z2 = 99, 0.2, 1.959964**2
    centre, half = p + z2 / (2 * n), math.sqrt(z2 * (p * (1 - p) + z2 / (4 * n)) / n)
    assert share.estimate == p
    assert share.low == pytest.approx((centre - half) / (1 + z2 / n))
    assert share.high == pytest.approx((centre + half) / (1 + z2 / n))


def test_a_stratum_without_reviewed_rows_is_unknown():
    for found in (
        Stratum(5, 0, 0).share(),
        share_of_all([Stratum(5, 0, 0), Stratum(5, 5, 1)]),
        share_of_all([]),
        share_within(Stratum(5, 0, 0), Stratum(5, 5, 1)),
        share_within(Stratum(5, 2, 0), Stratum(5, 2, 0)),
        share_within(Stratum(0, 0, 0), Stratum(5, 2, 1)),
    ):
        assert not found.known
        assert (found.low, found.high) == (0, 1)


def test_certain_strata_give_certain_shares():
    part, rest = Stratum(10, 10, 6), Stratum(90, 90, 2)
    for found, value in (
        (share_of_all([part, rest]), 0.08),
        (share_within(part, rest), 0.75),
        (share_within(part, Stratum(0, 0, 0)), 1.0),
    ):
        assert [found.low, found.estimate, found.high] == pytest.approx([value] * 3)


def test_limits_surround_the_estimate():
    for wrong in range(21):
        for missed in range(21):
            strata = Stratum(300, 20, wrong), Stratum(700, 20, missed)
            for found in (share_of_all(strata), share_within(*strata)):
                assert not found.known or 0 <= found.low <= found.estimate <= found.high <= 1


SETTINGS = [  # rows flagged and others, shares of wrong labels, rows reviewed
    (1500, 8500, 0.85, 0.03, 100, 100),
    (3000, 7000, 0.90, 0.10, 100, 100),
    (4000, 6000, 0.95, 0.30, 100, 100),
    (500, 9500, 0.30, 0.02, 100, 100),
    (200, 800, 0.60, 0.05, 60, 60),
    (300, 700, 0.80, 0.20, 25, 25),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_intervals_cover_as_often_as_they_promise(setting):
    flagged, rest, precision, missed, n_flagged, n_rest = setting
    wrong, wrong_rest = round(flagged * precision), round(rest * missed)
    # Coverage depends on the setting, not on chance: the exact sum over all outcomes.
    covered = np.zeros(3)
    for k, p in _hypergeometric(flagged, wrong, n_flagged):
        for j, q in _hypergeometric(rest, wrong_rest, n_rest):
            part, others = Stratum(flagged, n_flagged, k), Stratum(rest, n_rest, j)
            truths = (
                (part.share(), wrong / flagged),
                (share_of_all((part, others)), (wrong + wrong_rest) / (flagged + rest)),
                (share_within(part, others), wrong / (wrong + wrong_rest)),
            )
            covered += [p * q * (each.low <= truth <= each.high) for each, truth in truths]
    assert (covered > 0.93).all(), covered
    assert (covered < 0.97).all(), covered


def _hypergeometric(size, wrong, drawn):
    """Numbers of wrong labels in the sample that are not negligible, and their probabilities."""
    total = math.comb(size, drawn)
    pairs = ((k, math.comb(wrong, k) * math.comb(size - wrong, drawn - k) / total)
             for k in range(max(0, drawn - size + wrong), min(wrong, drawn) + 1))  # fmt: skip
    return [(k, p) for k, p in pairs if p > 1e-7]
