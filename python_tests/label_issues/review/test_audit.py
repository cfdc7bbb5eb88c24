"""The audit: a random sample of both strata, hidden and in mixed order, that can be drawn again."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from label_issues.review.review_cases import judged, reviews

from ptd_ext.label_issues import Audit
from ptd_ext.label_issues.review.audit import draw_audit, redraw


def test_half_of_the_rows_are_flagged_and_none_is_drawn_twice():
    found, _ = judged()
    audit = found.audit(100)
    assert isinstance(audit, Audit)
    assert len(audit) == len(set(audit.positions)) == 100
    assert found.is_label_issue[audit.positions].sum() == 50
    assert (audit.ids == found.ids[audit.positions]).all()
    assert (audit.given_label == found.given_label[audit.positions]).all()


def test_the_order_is_mixed():
    found, _ = judged()
    flags = found.is_label_issue[found.audit(100).positions]
    changes = (flags[1:] != flags[:-1]).sum()
    assert 30 < changes < 70  # 50 of 99 are expected, with a standard deviation of 5


@pytest.mark.parametrize(("n", "flagged"), [(9, 4), (10_000, None), (1, 0)])
def test_sizes(n, flagged):
    found, _ = judged(rows=200)
    audit = found.audit(n)
    assert len(audit) == min(n, 200)
    assert flagged in (None, found.is_label_issue[audit.positions].sum())


def test_a_small_stratum_is_drawn_whole():
    found, _ = judged(rows=200)
    few = replace(found, is_label_issue=np.arange(200) < 3)
    assert few.is_label_issue[few.audit(40).positions].sum() == 3
    many = replace(found, is_label_issue=np.arange(200) >= 3)
    assert (~many.is_label_issue[many.audit(40).positions]).sum() == 3
    none = replace(found, is_label_issue=np.zeros(200, bool))
    assert len(none.audit(40)) == 40


def test_every_row_of_a_stratum_is_drawn_equally_often():
    found, _ = judged(rows=100)
    counts = np.zeros(100)
    for seed in range(600):
        counts[draw_audit(found, 20, seed).positions] += 1
    for rows in (found.is_label_issue, ~found.is_label_issue):
        share = 10 / rows.sum()
        # Five standard deviations of a binomial share.
        assert (abs(counts[rows] / 600 - share) < 5 * (share * (1 - share) / 600) ** 0.5).all()


def test_the_sample_depends_on_the_seed_and_not_on_the_order_of_rows():
    found, _ = judged()
    drawn = set(found.audit(50).ids)
    assert drawn == set(found.audit(50).ids)
    assert drawn != set(found.audit(50, random_state=1).ids)
    back = np.arange(len(found))[::-1]
    turned = replace(found, ids=found.ids[back], is_label_issue=found.is_label_issue[back])
    assert set(turned.audit(50).ids) == drawn


def test_verified_rows_are_left_out():
    found, _ = judged()
    verified = np.where(np.arange(len(found)) < 500, "confirmed", "no")
    flags = found.is_label_issue & (verified == "no")
    audit = replace(found, verified=verified, is_label_issue=flags).audit(50)
    assert audit.positions.min() >= 500


def test_the_file_is_a_form_without_flags_and_suggestions(tmp_path):
    found, true = judged()
    audit = found.audit(40)
    path = audit.save(tmp_path / "audit.csv")
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == audit.ids.tolist()
    assert {row["audit"] for row in rows} == {audit.name}
    assert set(rows[0]) == {
        *("id", "given_label", "decision", "verified_label", "reviewer", "time", "note", "audit")
    }
    assert {row["decision"] + row["verified_label"] for row in rows} == {""}
    answers = reviews(found, true, audit.positions)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "verified_label": answers[row["id"]]} for row in rows)
    evaluation = found.evaluate(path)
    assert evaluation.random
    assert evaluation.reviewed == 40


def test_an_audit_is_drawn_again_by_its_name():
    found, _ = judged()
    audit = found.audit(30, random_state=7)
    assert (redraw(found, audit.name).positions == audit.positions).all()
    other = replace(found, is_label_issue=~found.is_label_issue)
    for name in (other.audit(30, random_state=7).name, "", "0-1-x", "5", f"30-{2**80}-x"):
        with pytest.raises(ValueError, match=r"reviewed must be decisions on an audit of these"):
            redraw(found, name)


def test_what_is_rejected():
    found, _ = judged(rows=50)
    with pytest.raises(ValueError, match="n must be an integer"):
        found.audit(0)
    with pytest.raises(ValueError, match="random_state must be an integer from 0"):
        found.audit(10, random_state=-1)
    with pytest.raises(ValueError, match="ids must be distinct for an audit"):
        replace(found, ids=np.zeros(50)).audit(10)
