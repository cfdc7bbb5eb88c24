"""Means, deviations and the significance test."""

import math

import pytest

from ptd_ext.experiments.reproduce.statistics import Summary, p_value, summarise


def test_the_deviation_is_that_of_a_sample():
    # Squares around 5 are 9, 1, 1, 1, 0, 0, 4, 16: 32 in all, over 7 and not over 8.
    assert summarise([2, 4, 4, 4, 5, 5, 7, 9]) == Summary(5.0, math.sqrt(32 / 7), 8)


def test_one_run_has_no_deviation_and_none_no_mean():
    one, none = summarise([81.5]), summarise([])
    assert (one.mean, one.count) == (81.5, 1)
    assert math.isnan(one.std)
    assert none.count == 0
    assert math.isnan(none.mean)


def test_equal_runs_vary_by_exactly_nothing():
    assert summarise([0.1] * 7).std == 0  # 0.1 · 7 / 7 need not be 0.1


def test_the_t_test_has_its_closed_form_at_two_degrees_of_freedom():
    # t = 4 / √2 = 2√2; two-sided p = 1 − t / √(2 + t²).
    assert p_value([5, 7], [1, 3]) == pytest.approx(1 - 2 * math.sqrt(2) / math.sqrt(10), rel=1e-12)


def test_the_t_test_pools_the_variances():
    # Variances 1 and 200 / 3 of 2 and 4 runs: Welch's test, which does not pool, differs.
    first, second = [10.0, 10.0 + math.sqrt(2)], [0.0, 10.0, 10.0, 20.0]
    spread = (1 * 1 + 3 * 200 / 3) / 4  # pooled over 1 + 3 degrees of freedom
    t = (10 + math.sqrt(2) / 2 - 10) / math.sqrt(spread * (1 / 2 + 1 / 4))
    x = t / math.sqrt(4 + t * t)  # closed form at four degrees of freedom
    assert p_value(first, second) == pytest.approx(1 - x * (3 - x * x) / 2, rel=1e-12)


def test_the_t_test_is_two_sided():
    better, worse = [80.0, 81.0, 82.0], [70.0, 71.0, 72.5]
    assert p_value(better, worse) == pytest.approx(p_value(worse, better))
    assert p_value(better, worse) < 0.01


@pytest.mark.parametrize(
    ("first", "second"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], []), ([3.0, 3.0], [4.0, 4.0])]
)
def test_what_cannot_be_tested_is_nan_without_a_warning(first, second, recwarn):
    assert math.isnan(p_value(first, second))
    assert not recwarn


def test_a_mean_without_a_deviation_stands_alone():
    assert [Summary(1.005, std).text(1) for std in (math.nan, 0.25)] == ["1.0", "1.0 ± 0.2"]
