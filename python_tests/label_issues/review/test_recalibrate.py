"""Recalibration by reviewed rows: the fit, the rate, the flags, and what is fixed."""

import numpy as np
import pytest
from label_issues.review.review_cases import NAMES, judged, reviews

from ptd_ext.label_issues import Answer, read_decisions
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.review.recalibrate import answers, recalibrate, update_retrained


def logit(p):
    return np.log(p / (1 - p))


def test_without_reviewed_rows_nothing_changes():
    found, _ = judged()
    fitted = recalibrate(np.zeros(0), np.zeros(0, int), np.zeros(0, bool), 3)
    assert fitted.parameters == pytest.approx([0, 1, 0, 0, 0])
    given = found.class_indices(found.given_label)
    quality = np.clip(found.label_quality, 1e-6, 1 - 1e-6)
    assert fitted.right(found.label_quality, given) == pytest.approx(quality)


def test_many_reviewed_rows_give_the_true_parameters():
    rng = np.random.default_rng(0)
    quality, given = rng.random(100_000), rng.integers(2, size=100_000)
    p = 1 / (1 + np.exp(-(-1.0 + 0.5 * logit(quality) + np.array([0.3, -0.3])[given])))
    fitted = recalibrate(quality, given, rng.random(100_000) < p, 2)
    a, b, *u = fitted.parameters  # the data determine the sums a + u alone
    assert [b, a + u[0], a + u[1]] == pytest.approx([0.5, -0.7, -1.3], abs=0.05)


def test_the_gradient_is_zero_at_the_solution():
    rng = np.random.default_rng(1)
    quality, given, right = rng.random(50), rng.integers(3, size=50), rng.random(50) < 0.9
    fitted = recalibrate(quality, given, right, 3)
    design = np.column_stack([np.ones(50), logit(quality), np.eye(3)[given]])
    ridge = np.array([0.5, 1, 5, 5, 5])
    pull = ridge * (fitted.parameters - [0, 1, 0, 0, 0])
    rest = right - fitted.right(quality, given)
    assert design.T @ rest == pytest.approx(pull, abs=1e-8)


@pytest.mark.parametrize("right", [True, False])
def test_reviews_that_all_agree_have_a_finite_fit(right):
    fitted = recalibrate(np.full(500, 1e-9), np.zeros(500, int), np.full(500, right), 2)
    assert np.isfinite(fitted.parameters).all()


@pytest.mark.parametrize("order", ["random", "doubtful"])
def test_the_rate_moves_to_the_truth_in_any_order(order):
    errors = []
    for seed in range(5):
        found, true = judged(rows=3000, seed=seed)
        rate = (found.given_label != NAMES[true]).mean()
        rows = np.random.default_rng(seed).permutation(3000)
        # The most doubtful rows alone would say nothing about the others.
        rows = found.most_doubtful()[:900:2] if order == "doubtful" else rows[:200]
        updated = found.update(reviews(found, true, rows))
        errors.append((abs(float(found.noise_rate) - rate), abs(float(updated.noise_rate) - rate)))
    before, after = np.mean(errors, 0)
    assert before > 0.1
    assert after < 0.035


def test_intervals_of_random_reviews_hold_the_rate():
    held = 0
    found, true = judged(rows=2000)
    rate = (found.given_label != NAMES[true]).mean()
    for seed in range(200):
        rows = np.random.default_rng(seed).choice(2000, 200, replace=False)
        interval = found.update(reviews(found, true, rows)).noise_rate.overall
        held += interval.low <= rate <= interval.high
    assert 0.90 < held / 200 <= 1


def test_reviewed_rows_are_fixed_and_never_flagged():
    found, _ = judged()
    a, b, c, d, e = found.most_doubtful()[:5]
    given = [str(found.given_label[row]) for row in (a, b, c, d, e)]
    other = next(name for name in NAMES if name != given[1])
    made = [given[0], str(other), Answer.WRONG, Answer.NONE, Answer.UNSURE]
    answer = dict(zip(found.ids[[a, b, c, d, e]], made, strict=True))
    updated = found.update(answer)
    assert updated.verified[[a, b, c, d, e]].tolist() == [
        *("confirmed", "corrected", "wrong", "none", "no")
    ]
    assert not updated.is_label_issue[updated.is_verified].any()
    assert updated.is_label_issue[e]
    assert updated.label_quality[[a, b, c, d]].tolist() == [1, 0, 0, 0]
    assert updated.suggested_label[a] == given[0]
    assert updated.suggested_label[b] == other
    assert updated.suggested_probability[b] == 1
    assert updated.suggested_label[c] != given[2]
    assert updated.suggested_label[d] == given[3]
    assert updated.posterior[d].sum() == 0
    rest = np.setdiff1d(np.arange(len(found)), d)
    assert updated.posterior[rest].sum(1) == pytest.approx(1, abs=1e-5)
    assert updated.facts["verified labels"] == "4"
    assert updated.table.verified.tolist() == updated.verified.tolist()


def test_earlier_reviews_stay():
    found, true = judged()
    first = found.update(reviews(found, true, np.arange(100)))
    second = first.update(reviews(found, true, np.arange(50, 200)))
    assert second.is_verified.tolist() == [True] * 200 + [False] * 400
    assert (second.suggested_label[:100] == first.suggested_label[:100]).all()
    assert (second.label_quality[:200] == (found.given_label == NAMES[true])[:200]).all()


def test_flags_follow_the_posterior_and_the_share():
    found, true = judged(rows=2000)
    answer = reviews(found, true, np.arange(300))
    updated = found.update(answer)
    posterior, given = updated.posterior, updated.class_indices(updated.given_label)
    disputed = posterior.max(1) > posterior[np.arange(2000), given]
    disputed &= ~updated.is_verified
    assert disputed.any()
    np.testing.assert_array_equal(updated.is_label_issue, disputed)
    half = found.update(answer, flag_share=0.5)
    assert half.is_label_issue.sum() == round(disputed.sum() / 2)


def test_all_rows_reviewed_leave_no_doubt():
    found, true = judged(rows=200)
    updated = found.update(reviews(found, true, np.arange(200)))
    overall = updated.noise_rate.overall
    wrong = (found.given_label != NAMES[true]).mean()
    assert overall.low == overall.high == overall.estimate == pytest.approx(wrong)
    assert not updated.is_label_issue.any()


def test_they_are_saved(tmp_path):
    found, true = judged()
    updated = found.update(reviews(found, true, np.arange(100)))
    updated.save(tmp_path / "found.safetensors")
    loaded = LabelIssues.load(tmp_path / "found.safetensors")
    assert loaded.verified.tolist() == updated.verified.tolist()


def test_answers_of_codes():
    codes, given = np.array([-1, 0, 1, -2, -3]), np.zeros(5, int)
    assert answers(codes, given).tolist() == ["no", "confirmed", "corrected", "wrong", "none"]


def test_a_retrained_model_keeps_the_rates_that_were_measured():
    found, true = judged(rows=1000)
    later, _ = judged(rows=1000)  # the model that was trained with the verified labels
    answer = reviews(found, true, np.arange(200))
    before = found.update(answer)
    labels = found.given_labels()
    codes = read_decisions(answer, found.ids, labels).codes(found.ids, labels)
    updated = update_retrained(later, before, codes, 1.0)
    assert updated.noise_rate == before.noise_rate
    assert (updated.verified == before.verified).all()
    for name in NAMES:
        rows = (found.given_label == name) & ~before.is_verified
        mean = before.label_quality[rows].mean()
        assert updated.label_quality[rows].mean() == pytest.approx(mean, abs=1e-6)
        # The order is that of the later model.
        order = np.argsort(later.label_quality[rows])
        assert (np.diff(updated.label_quality[rows][order]) >= 0).all()


def test_reviews_of_the_most_doubtful_rows_alone_cause_a_warning():
    found, true = judged()
    order = found.most_doubtful()
    top = found.update(reviews(found, true, order[:50]))
    assert "the noise rate is an extrapolation" in top.warnings[-1]
    assert found.update(reviews(found, true, order[::10])).warnings == found.warnings
