"""Which samples the gallery shows, in which order, and how much of each."""

from dataclasses import replace

import numpy as np
import pytest
from label_issues.report.report_cases import NAMES, findings

from ptd_ext.label_issues.report import gallery
from ptd_ext.label_issues.report.gallery import make_gallery
from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.utils.png import heat_picture


def made(found, show=None, max_samples=500):
    return make_gallery(found, [str(label) for label in found.classes], show, max_samples)


def numbers(shown):
    return [int(sample.id[4:7]) for sample in shown.samples]


def test_flagged_samples_come_first_then_the_most_doubtful():
    found = findings(12)
    assert numbers(made(found)) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 3, 7, 11]
    shown = made(found, max_samples=10)
    assert numbers(shown) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 3]
    assert shown.flagged == 9
    first, last = shown.samples[0], shown.samples[-1]
    assert (first.given, first.suggested, first.is_label_issue) == (0, 1, True)
    assert (last.label_quality, last.suggested_probability) == (0.04, 0.95 - 3 / 1000)
    assert not last.is_label_issue


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

    assert made(findings(is_label_issue=np.zeros(40, bool)), never).samples == ()


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
    assert made(findings(4), lambda index: Sample(png=png)).samples[0].small == small


def test_contents_are_limited(monkeypatch):
    text = made(findings(4), lambda index: Sample(text="x" * 2000)).samples[0].text
    assert text == "x" * 2000
    text = made(findings(4), lambda index: Sample(text="x" * 2001)).samples[0].text
    assert text == "x" * 1999 + "…"
    for columns, note in ((50, None), (60, "10 more columns are omitted.")):
        row = {f"c{i}": "y" * 201 for i in range(columns)}
        sample = made(findings(4), lambda index, row=row: Sample(row=row)).samples[0]
        assert sample.omitted == note
        assert len(sample.row) == 50
        assert sample.row[49] == ("c49", "y" * 199 + "…")
    png = heat_picture(np.zeros((8, 8)))
    size = len(gallery.data_url(png))
    monkeypatch.setattr(gallery, "_MAX_PICTURE_BYTES", 3 * size)
    samples = made(findings(12), lambda index: Sample(png=png)).samples
    assert [sample.picture is not None for sample in samples] == [True] * 3 + [False] * 9
    assert samples[3].omitted == "This picture is omitted to limit the size of the page."


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
        made(found, None, most).digest
        for found, most in (
            (findings(), 500),
            (findings(), 20),
            (findings(names=[*NAMES[:3], "other"]), 500),
        )
    }
    assert len(digests) == 3
    assert made(findings(label_quality=np.arange(40) / 80)).digest in digests
