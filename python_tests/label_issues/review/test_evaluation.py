"""evaluate: figures by hand, which rows count, and what is warned of."""

from dataclasses import replace

import numpy as np
import pytest
from label_issues.review.review_cases import NAMES, judged, reviews, unsure

from ptd_ext.label_issues import Answer, Evaluation, read_decisions
from ptd_ext.label_issues.review.evaluation import MIN_REVIEWED, _figures, evaluate


def test_a_review_of_all_rows_measures_the_truth():
    found, true = judged()
    wrong = found.given_label != NAMES[true]
    evaluation = evaluate(found, reviews(found, true, np.arange(len(found))))
    flags = found.is_label_issue
    for interval, value in (
        (evaluation.noise_rate.overall, wrong.mean()),
        (evaluation.precision, wrong[flags].mean()),
        (evaluation.recall, flags[wrong].mean()),
        (evaluation.noise_rate.by_class[1], wrong[found.given_label == "dog"].mean()),
        (evaluation.precision_by_class[2], wrong[flags & (found.given_label == "owl")].mean()),
    ):
        assert interval.low == interval.estimate == interval.high == pytest.approx(value)
    assert evaluation.reviewed == len(found)


def test_intervals_of_audits_hold_the_truth_as_often_as_they_promise():
    found, true = judged(rows=1000, flag_share=2.0)
    wrong, flags = found.given_label != NAMES[true], found.is_label_issue
    truths = wrong[flags].mean(), flags[wrong].mean(), wrong.mean()
    class_truths = [wrong[found.given_label == name].mean() for name in NAMES]
    held, held_by_class, draws = np.zeros(3), 0, 1000
    for seed in range(draws):
        rows = found.audit(200, random_state=seed).positions
        values = np.full(len(found), np.nan)
        values[rows] = wrong[rows]
        made = _figures(found, values, True, ())
        intervals = made.precision, made.recall, made.noise_rate.overall
        pairs = zip(intervals, truths, strict=True)
        held += [each.low <= truth <= each.high for each, truth in pairs]
        pairs = zip(made.noise_rate.by_class, class_truths, strict=True)
        held_by_class += sum(each.low <= truth <= each.high for each, truth in pairs)
    assert (held / draws > 0.93).all(), held
    assert (held / draws < 0.97).all(), held
    assert 0.93 < held_by_class / (3 * draws) < 0.97


def test_the_figures_of_an_audit():
    found, true = judged()
    audit = found.audit(100)
    evaluation = found.evaluate(reviews(found, true, audit.positions), audit=audit)
    assert isinstance(evaluation, Evaluation)
    assert evaluation.random
    assert evaluation.reviewed == 100
    assert not evaluation.warnings
    rows = audit.positions
    wrong, flags = (found.given_label != NAMES[true])[rows], found.is_label_issue[rows]
    weight = found.is_label_issue.mean()
    rate = weight * wrong[flags].mean() + (1 - weight) * wrong[~flags].mean()
    assert evaluation.precision.estimate == pytest.approx(wrong[flags].mean())
    assert evaluation.noise_rate.overall.estimate == pytest.approx(rate)
    assert evaluation.recall.estimate == pytest.approx(weight * wrong[flags].mean() / rate)
    assert evaluation.estimated is found.noise_rate


def test_rows_reviewed_beside_the_audit_do_not_count():
    found, true = judged()
    audit = found.audit(100)
    alone = found.evaluate(reviews(found, true, audit.positions), audit=audit.name)
    top = found.most_doubtful()[:80]
    both = reviews(found, true, np.concatenate([top, audit.positions]))
    assert found.evaluate(both, audit=audit) == alone


def test_rows_that_were_not_drawn_at_random_are_warned_of():
    found, true = judged()
    evaluation = found.evaluate(reviews(found, true, found.most_doubtful()[:80]))
    assert not evaluation.random
    assert evaluation.reviewed == 80
    assert evaluation.warnings[0].startswith("The reviewed rows were not drawn by audit()")
    assert not evaluation.recall.known  # no row of the others was reviewed
    assert "recall of the flags, measured on 80 reviewed rows: unknown" in str(evaluation)


def test_undecided_rows_of_an_audit_are_warned_of():
    found, true = judged()
    audit = found.audit(100)
    answers = {
        **reviews(found, true, audit.positions[:90]),
        **unsure(found, audit.positions[90:95]),
    }
    evaluation = found.evaluate(answers, audit=audit)
    assert evaluation.reviewed == 90
    assert evaluation.warnings[0].startswith("10 of the 100 rows of the audit are undecided.")


def test_answers_without_a_class_count_as_wrong():
    found, _ = judged()
    flagged = found.ids[found.is_label_issue][:20]
    answers = {each: Answer.WRONG if n % 2 else Answer.NONE for n, each in enumerate(flagged)}
    assert found.evaluate(answers).precision.estimate == 1


def test_verified_rows_are_counted_as_they_are():
    found, true = judged()
    wrong = found.given_label != NAMES[true]
    half = np.arange(len(found)) < 300
    verified = np.where(half, np.where(wrong, "corrected", "confirmed"), "no")
    later = replace(found, verified=verified, is_label_issue=found.is_label_issue & ~half)
    audit = later.audit(1000)
    evaluation = later.evaluate(reviews(later, true, audit.positions), audit=audit)
    assert evaluation.reviewed == 300
    assert evaluation.noise_rate.overall.estimate == pytest.approx(wrong.mean())
    assert evaluation.recall.estimate == pytest.approx(later.is_label_issue[wrong & ~half].mean())


def test_classes_with_few_reviewed_rows_are_unknown():
    found, true = judged()
    audit = found.audit(4 * MIN_REVIEWED)
    evaluation = found.evaluate(reviews(found, true, audit.positions), audit=audit)
    assert evaluation.precision.known
    assert not all(each.known for each in evaluation.noise_rate.by_class)
    evaluation = found.evaluate(reviews(found, true, found.audit(300).positions))
    assert all(each.known for each in evaluation.noise_rate.by_class)
    assert all(each.known for each in evaluation.precision_by_class)


def test_several_audits_must_be_told_apart():
    found, true = judged()
    made = []
    for seed in (0, 1):
        audit = found.audit(20, random_state=seed)
        read = read_decisions(
            reviews(found, true, audit.positions), found.ids, found.given_labels()
        )
        made += [replace(each, audit=audit.name, reviewer="Ann") for each in read]
    decisions = type(read)(tuple(made))
    with pytest.raises(ValueError, match=r"reviewed must be decisions on one audit; got 20-0-"):
        found.evaluate(decisions)
    assert found.evaluate(decisions, audit=audit).reviewed == 20


def test_page_notebook_and_summary_show_both_numbers(tmp_path):
    found, true = judged()
    audit = found.audit(100)
    evaluation = found.evaluate(reviews(found, true, audit.positions[:99]), audit=audit)
    page = found.report(tmp_path / "page.html", evaluation=evaluation).read_text()
    for text in (str(evaluation), evaluation.html(), page):
        assert "noise rate, estimated by the model" in text
        assert "precision of the flags, measured on 99 reviewed rows" in text
        assert str(evaluation.precision) in text
        assert "1 of the 100 rows of the audit are undecided." in text
    assert evaluation._repr_html_() == evaluation.html()
    assert repr(evaluation).startswith(f"Evaluation(precision {evaluation.precision}, recall ")
