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


def test_rate_of_rows_trained_on_goes_from_the_expected_to_the_mean_doubt():
    joint = np.array([[0.3, 0.2], [0.1, 0.4]])  # a quarter and a third of the labels are wrong
    for rows, share in ((20, 2000 / 2020), (2000, 0.5), (40_000, 1 / 21)):
        given = np.arange(rows) % 2
        quality = np.where(given == 0, 0.9, 0.8)
        rates = noise_rate(quality, given, 2, joint)
        first, second = 0.1 + share * (1 / 4 - 0.1), 0.2 + share * (1 / 3 - 0.2)
        assert [rate.estimate for rate in rates.by_class] == pytest.approx([first, second])
        assert rates.overall.estimate == pytest.approx((first + second) / 2)


def test_a_class_that_is_never_named_has_no_rate():
    joint = np.array([[0.6, 0.0], [0.4, 0.0]])
    rates = noise_rate(np.array([0.5, 0.7]), np.array([0, 0]), 2, joint)
    assert 0.39 < rates.overall.estimate < 0.41
    assert np.isnan(rates.by_class[1].estimate)


@pytest.mark.parametrize(
    ("share", "counts"), [(1.0, (2, 5)), (0.5, (1, 2)), (3.0, (6, 10)), (0.0, (0, 0))]
)
def test_flags_follow_the_rate_of_each_class(share, counts):
    generator = np.random.default_rng(0)
    given = np.repeat([0, 1], 10)
    quality = np.clip(np.where(given == 0, 0.8, 0.5) + generator.uniform(-0.1, 0.1, 20), 0, 1)
    quality[:10] += 0.8 - quality[:10].mean()
    quality[10:] += 0.5 - quality[10:].mean()
    flagged = flag_issues(quality, given, noise_rate(quality, given, 2), share)
    assert (flagged[:10].sum(), flagged[10:].sum()) == counts
    for rows in (slice(0, 10), slice(10, 20)):
        if 0 < flagged[rows].sum() < 10:
            assert quality[rows][flagged[rows]].max() <= quality[rows][~flagged[rows]].min()


@pytest.mark.parametrize("share", [-1, float("nan"), float("inf"), "1", None])
def test_other_shares_are_rejected(share):
    with pytest.raises(ValueError, match="flag_share must be a finite number of at least 0; got"):
        check_flag_share(share)
    check_flag_share(np.float32(0))
