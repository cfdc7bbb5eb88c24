"""Noise rates, their intervals, and how many rows are flagged."""

import numpy as np
import pytest
from scipy.stats import binomtest

from ptd_ext.label_issues.rates import (
    Interval,
    NoiseRate,
    check_flag_share,
    flag_issues,
    noise_rate,
    wilson_interval,
)


@pytest.mark.parametrize(("wrong", "count"), [(0, 10), (3, 10), (10, 10), (17, 1000)])
def test_interval_is_that_of_scipy(wrong, count):
    ours = wilson_interval(wrong / count, count)
    theirs = binomtest(wrong, count).proportion_ci(0.95, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_rates_as_strings_and_numbers():
    rate = NoiseRate(Interval(0.25, 0.2, 0.3), ())
    assert float(rate) == 0.25
    assert str(rate.overall) == "25.0% (20.0% to 30.0%)"
    empty = wilson_interval(0.0, 0)
    assert np.isnan(empty.estimate)
    assert np.isnan(noise_rate(np.empty(0), np.empty(0, int), 2).overall.estimate)


def test_rates_are_mean_doubts_by_given_label():
    quality, given = np.array([0.9, 0.5, 0.0, 1.0]), np.array([0, 0, 1, 1])
    rates = noise_rate(quality, given, 3)
    assert rates.overall.estimate == pytest.approx(0.4)
    assert [rate.estimate for rate in rates.by_class[:2]] == pytest.approx([0.3, 0.5])
    assert np.isnan(rates.by_class[2].estimate)
    assert (rates.by_class[2].low, rates.by_class[2].high) == (0, 1)


def test_classes_share_the_range_of_the_overall_rate():
    given = np.arange(2000) % 2
    quality = np.where(given == 0, 0.9, 0.7)  # rates 0.1 and 0.3, and 0.2 overall
    rates = noise_rate(quality, given, 2, (0.1, 0.4))
    assert (rates.overall.low, rates.overall.high) == (0.1, 0.4)
    for rate, low, high in zip(rates.by_class, (0.05, 0.15), (0.325, 0.475), strict=True):
        assert rate.low == pytest.approx(wilson_interval(low, 1000).low)
        assert rate.high == pytest.approx(wilson_interval(high, 1000).high)


def test_the_estimate_is_within_its_range():
    rates = noise_rate(np.full(10, 0.8), np.zeros(10, int), 2, (0.3, 0.4))
    assert (rates.overall.low, rates.overall.high) == pytest.approx((0.2, 0.4))


def test_a_class_that_is_never_named_has_no_rate():
    rates = noise_rate(np.array([0.5, 0.7]), np.array([0, 0]), 2, (0.1, 0.6))
    assert rates.overall.estimate == pytest.approx(0.4)
    assert np.isnan(rates.by_class[1].estimate)


POSTERIOR = np.array([[0.4, 0.3, 0.3], [0.5, 0.5, 0.0], [0.1, 0.6, 0.3], [0.2, 0.0, 0.8]])


@pytest.mark.parametrize(
    ("share", "rows"), [(1.0, [2, 3]), (0.5, [2]), (1.5, [0, 2, 3]), (9.0, [0, 1, 2, 3]), (0.0, [])]
)
def test_rows_are_flagged_if_another_class_is_more_probable(share, rows):
    flagged = flag_issues(POSTERIOR, np.zeros(4, int), share)
    assert np.flatnonzero(flagged).tolist() == rows


@pytest.mark.parametrize("share", [-1, float("nan"), float("inf"), "1", None])
def test_other_shares_are_rejected(share):
    with pytest.raises(ValueError, match="flag_share must be a finite number of at least 0; got"):
        check_flag_share(share)
    check_flag_share(np.float32(0))
