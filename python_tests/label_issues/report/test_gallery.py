"""Which samples the gallery shows, in which order, and how much of each."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from label_issues.report.report_cases import NAMES, findings

from ptd_ext.label_issues.report import gallery
from ptd_ext.label_issues.report.gallery import clear_errors, make_gallery, sampling_keys
from ptd_ext.label_issues.report.pictures import Pictures
from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.utils.png import heat_picture


def made(found, show=None, max_samples=500):
    names, pictures = [str(label) for label in found.classes], Pictures(Path("page.html"))
    return make_gallery(found, names, show, max_samples, pictures)


def numbers(shown):
    return [int(id[4:7]) for id in shown.payload["ids"]]


def contents(shown):
    return shown.payload["contents"]


def test_flagged_samples_come_first_then_the_most_doubtful():
    found = findings(12)
    assert numbers(made(found)) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 3, 7, 11]
    shown = made(found, max_samples=10)
    assert numbers(shown) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 3]
    assert shown.flagged == 9
    assert (shown.shown_flagged, shown.unflagged, shown.count) == (9, 1, 10)
    columns = ("given", "suggested", "quality", "probability", "flagged")
    first, last = ([shown.payload[name][i] for name in columns] for i in (0, -1))
    assert first == [0, 1, 0.01, 0.95, 1]
    assert last == [3, 0, 0.04, 0.947, 0]


def test_a_doubt_without_a_likelier_label_is_not_shown():
    index = np.arange(8)
    own = np.where(index % 4 == 3, index % 4, (index + 1) % 4)
    found = findings(8)
    assert numbers(made(replace(found, suggested_label=found.classes[own]))) == [0, 1, 2, 4, 5, 6]
    unlikely = np.where(index == 7, 0.01, 0.9)
    assert numbers(made(replace(found, suggested_probability=unlikely)))[-1] == 3
    as_likely = np.where(index == 7, found.label_quality, 0.9)
    assert numbers(made(replace(found, suggested_probability=as_likely)))[-1] == 3


def test_without_flags_nothing_is_shown():
    def never(index):
        raise AssertionError("no sample is to be shown")

    assert made(findings(is_label_issue=np.zeros(40, bool)), never).count == 0


def test_pairs_are_counted_the_most_frequent_first():
    found = findings(8, is_label_issue=np.array([True] * 6 + [False] * 2))
    assert made(found).pairs == [((0, 1), 2), ((1, 2), 2), ((2, 3), 2), ((3, 0), 2)]
    assert made(found, None, 5).pairs == [((0, 1), 2), ((1, 2), 1), ((2, 3), 1), ((3, 0), 1)]


@pytest.mark.parametrize(
    ("height", "width", "small"),
    [(64, 64, True), (65, 64, False), (64, 65, False), (65, 65, False), (1, 1, True)],
)
def test_pictures_of_up_to_64_pixels_stay_sharp(height, width, small):
    png = heat_picture(np.zeros((height, width)))
    assert contents(made(findings(4), lambda index: Sample(png=png)))[0]["small"] == small


def test_contents_are_limited(monkeypatch):
    monkeypatch.setattr(gallery, "_MAX_TEXT", 2000)
    (text, *_) = contents(made(findings(4), lambda index: Sample(text="x" * 2000)))
    assert text == {"text": "x" * 2000}
    (text, *_) = contents(made(findings(4), lambda index: Sample(text="x" * 2010)))
    assert text == {"text": "x" * 1999 + "…", "omitted": "10 more characters are omitted."}
    monkeypatch.setattr(gallery, "_MAX_TEXTS", 2400)
    (text, *_) = contents(made(findings(4), lambda index: Sample(text="x" * 2000)))
    assert len(text["text"]) == 600, "of all texts together"
    for columns, note in ((50, None), (60, "10 more columns are omitted.")):
        row = {f"c{i}": "y" * 201 for i in range(columns)}
        shown = made(findings(4), lambda index, row=row: Sample(row=row))
        assert contents(shown)[0].get("omitted") == note
        assert shown.payload["columns"] == [[f"c{i}" for i in range(50)]]
        assert contents(shown)[0]["values"] == ["y" * 199 + "…"] * 50


def test_rows_with_other_columns_name_theirs():
    shown = made(findings(4), lambda index: Sample(row={"a": "1"} if index % 2 else {"b": "2"}))
    assert [shown.payload["columns"][each["columns"]] for each in contents(shown)[:2]] == [
        ["b"],
        ["a"],
    ]


def test_clear_errors_come_first_and_flat_posteriors_last():
    posterior = np.array([[0.1, 0.9, 0.0], [0.1, 0.45, 0.45], [0.9, 0.1, 0.0]])
    first, second, right = clear_errors(posterior[:, 0], posterior)
    assert first > second > right
    entropy = -(0.1 * np.log(0.1) + 0.9 * np.log(0.9))
    np.testing.assert_allclose(first, -np.log(0.1) - entropy, rtol=1e-9)


def test_the_measuring_order_draws_in_proportion_to_doubt():
    """The first row drawn is each row with the probability d / Σ d."""
    doubt = np.array([0.6, 0.3, 0.1])
    first = [int(sampling_keys(doubt, seed).argmin()) for seed in range(4000)]
    share = np.bincount(first, minlength=3) / 4000
    assert np.abs(share - doubt).max() < 4.5 * 0.5 / np.sqrt(4000)
    assert np.isfinite(sampling_keys(np.zeros(3))).all()


def test_the_nine_most_probable_classes_are_ranked():
    posterior = np.full((40, 12), 0.01, np.float32)
    posterior[0, 7], posterior[0, 3] = 0.5, 0.4
    found = findings(names=[f"c{i:02}" for i in range(12)], posterior=posterior)
    ranking = made(found).payload["ranking"]
    assert ranking[0][:2] == [(7, 0.5), (3, 0.4)]
    assert {len(each) for each in ranking} == {9}


@pytest.mark.parametrize(
    ("text", "formula"),
    [("=1+1", True), ("@sum", True), ("-a", True), ("+1", False), ("-1e3", False), ("a=b", False)],
)
def test_formulas_are_recognised_in_ids_and_labels(text, formula):
    assert made(findings(4, ["a", text])).formula_like == formula
    ids = np.array([f"row {i:03}" for i in range(3)] + [text], dtype=object)
    found = findings(4, ["a", "b"], ids=ids)
    assert made(found).formula_like == formula
    assert not made(found, max_samples=3).formula_like, "an id that is not on the page"


def test_decisions_belong_to_the_samples_shown():
    digests = {
        made(found, None, most).payload["digest"]
        for found, most in (
            (findings(), 500),
            (findings(), 20),
            (findings(names=[*NAMES[:3], "other"]), 500),
        )
    }
    assert len(digests) == 3
    assert made(findings(label_quality=np.arange(40) / 80)).payload["digest"] in digests
