"""Noise rates, their intervals, and how many rows are flagged."""

import numpy as np
import pytest
from scipy.stats import binomtest

from ptd_ext.label_issues.findings import judge
from ptd_ext.label_issues.inputs.labels import GivenLabels
from ptd_ext.label_issues.rates import flag_issues, noise_rate, wilson_interval


@pytest.mark.parametrize(("wrong", "count"), [(0, 10), (3, 10), (10, 10), (17, 1000)])
def test_interval_is_that_of_scipy(wrong, count):
    ours = wilson_interval(wrong / count, count)
    theirs = binomtest(wrong, count).proportion_ci(0.95, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


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


def test_suggestions_are_other_classes_of_flagged_rows_only():
    posterior = np.array([[0.6, 0.4], [0.4, 0.6], [0.1, 0.9], [0.0, 1.0]], dtype=np.float32)
    labels = GivenLabels(np.array([0, 0, 0, 1]), np.array(["a", "b"]))
    found = judge(posterior, labels, np.eye(2), ids=["w", "x", "y", "z"])
    # The doubts of "a" sum to 0.4 + 0.6 + 0.9 = 1.9 rows.
    assert found.is_label_issue.tolist() == [False, True, True, False]
    assert found.suggested_label.tolist() == ["a", "b", "b", "b"]
    assert found.suggested_probability == pytest.approx([0.6, 0.6, 0.9, 1.0])
    assert found.label_quality == pytest.approx([0.6, 0.4, 0.1, 1.0])
    assert found.most_doubtful().tolist() == [2, 1, 0, 3]


def test_what_cannot_be_trusted_flags_nothing():
    posterior = np.array([[0.1, 0.9], [0.2, 0.8]], dtype=np.float32)
    labels = GivenLabels(np.array([0, 0]), np.array([5, 6]))
    found = judge(posterior, labels, np.eye(2), trusted=False, warnings=("A reason.",))
    assert not found.is_label_issue.any()
    assert found.suggested_label.tolist() == [5, 5]
    assert "warning: A reason." in str(found)


def test_table_and_file_hold_the_same_rows(tmp_path):
    pandas = pytest.importorskip("pandas")
    posterior = np.array([[1 / 3, 2 / 3], [0.7, 0.3]], dtype=np.float32)
    labels = GivenLabels(np.array([0, 0]), np.array(["a, b", 'say "c"'], dtype=object))
    found = judge(posterior, labels, np.eye(2), ids=["one", "two"])
    read = pandas.read_csv(found.to_csv(tmp_path / "labels.csv"))
    pandas.testing.assert_frame_equal(read, found.table, check_dtype=False, check_exact=True)


def test_negative_share_is_rejected():
    labels = GivenLabels(np.array([0]), np.array([0, 1]))
    with pytest.raises(ValueError, match="flag_share must be finite and not negative; got -1"):
        judge(np.ones((1, 2), dtype=np.float32), labels, np.eye(2), flag_share=-1)
