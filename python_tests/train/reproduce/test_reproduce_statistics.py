"""Means, spreads, the significance test, and the numbers that the paper prints."""

import math

import pytest

from ptd_ext.train.methods.registry import METHODS
from ptd_ext.train.reproduce import published
from ptd_ext.train.reproduce.statistics import Summary, p_value, summarise

SYNTHETIC = ("mnist", "fashion_mnist", "svhn", "cifar10", "news")
BASELINES = [m for m, t in METHODS.items() if t.published and not t.has_parts]


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


def test_published_accuracies_are_the_papers():
    assert published.accuracy("fashion_mnist", "CE", 10) == (88.54, 0.31)
    assert published.accuracy("fashion_mnist", "PTD-R-V", 50) == (75.96, 1.38)
    assert published.accuracy("cifar10", "Joint", 50) == (44.72, 7.72)
    assert published.accuracy("clothing1m", "PTD-R-V", None) == (71.67, None)


def test_every_cell_of_the_papers_tables_is_there():
    for method in (name for name, m in METHODS.items() if m.published):
        assert published.accuracy("clothing1m", method, None)
        for data in SYNTHETIC:
            for rate in (10, 20, 30, 40, 50):
                assert published.accuracy(data, method, rate)
                tested = published.significance(data, method, rate)
                assert (tested is not None) == (method in BASELINES)


def test_what_the_paper_does_not_have_is_missing():
    assert published.accuracy("fashion_mnist", "Forward-band", 50) is None
    assert published.accuracy("fashion_mnist", "CE", 45) is None
    assert published.accuracy("digits", "CE", 50) is None
    assert published.ablation("accuracy", "cifar10", "PTD-F", 40, 10) is None
    assert published.ablation("accuracy", "mnist", "PTD-F", 50, 10) is None


def test_published_p_values_are_the_papers():
    assert published.significance("fashion_mnist", "T-Revision", 10) == 0.9522
    assert published.significance("news", "T-Revision", 50) == 0.0285


def test_published_ablation_under_the_names_of_methods():
    def error(method, parts):
        return published.ablation("approximation_error", "cifar10", method, 50, parts)

    assert error("Forward", 13) == (0.945, 0.051)
    assert error("PTD-F", 14) == error("PTD-R", 14) == (0.821, 0.040)
    assert error("PTD-R-V", 20) == (0.800, 0.015)
    assert error("Forward-band", 10) is None
    assert published.ablation("accuracy", "cifar10", "PTD-F-V", 50, 12) == (48.62, 3.05)
