"""The page as a file: what is in it, what cannot be, how large it is."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from label_issues.report.report_cases import HOSTILE, NAMES, TITLE, findings, show

import ptd_ext.label_issues.report as report
from ptd_ext import find_label_issues
from ptd_ext.label_issues.rates import Interval, NoiseRate
from ptd_ext.label_issues.report.page import (
    _SCRIPTS,
    _STYLES,
    _percent,
    _points,
    write_report,
)

FOLDER = Path(report.__file__).parent


class Page(HTMLParser):
    """The elements of a page, its text and its scripts."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.scripts, self.text = [], [], ""
        self._inside = None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data

    def having(self, tag, **attributes):
        return [a for t, a in self.elements if t == tag and attributes.items() <= a.items()]

    @property
    def data(self):
        return json.loads(self.scripts[0])

    @property
    def words(self):
        return " ".join(self.text.split())


@pytest.fixture
def write(tmp_path):
    def written(*args, max_samples=500, **changes):
        path, found = tmp_path / "report.html", findings(*args, **changes)
        assert write_report(found, path, title=TITLE, max_samples=max_samples) == path
        assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
        return Page(path)

    return written


def test_strings_of_the_data_are_not_markup(write):
    page = write()
    assert len(page.scripts) == 1 + len(_SCRIPTS), "the data and the page's own scripts"
    assert page.data["classes"] == NAMES
    assert page.data["ids"][0] == "row 000 & <b>"
    assert page.words.count(HOSTILE) > 4
    assert not page.having("b")
    assert all("onerror" not in attributes for _, attributes in page.elements)


def test_nothing_is_fetched_and_only_own_scripts_run(write):
    page = write()
    policy = page.having("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert policy.startswith(
        "default-src 'none'; img-src data:; connect-src 'self'; style-src 'sha256-"
    )
    assert "unsafe" not in policy
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} has the handler {name}"
            assert name != "style", f"{tag} has a style of its own, which the policy forbids"
            if name in ("src", "href"):
                assert value.startswith(("data:image/png;base64,", "#")), f"{tag} loads {value}"


def test_pictures_have_alt_texts(write):
    page = write(30, [f"class {i}" for i in range(30)])
    assert len(page.having("img")) > 2
    assert all(attributes["alt"].strip() for attributes in page.having("img"))
    assert all(a.get("aria-label") or a.get("aria-hidden") for a in page.having("svg"))


def test_the_number_of_flagged_samples_is_named(write):
    assert "All 9 flagged labels" in write(12, max_samples=10).words
    assert "The 5 of 9 flagged labels with the lowest quality." in write(12, max_samples=5).words
    assert "max_samples=0" in write(12, max_samples=0).words
    assert "1 label is flagged." in write(1).words


def test_without_flags_there_is_no_gallery(write):
    def never(index):
        raise AssertionError("no sample is to be shown")

    page = write(is_label_issue=np.zeros(40, bool), sample=never)
    assert page.data["ids"] == page.data["contents"] == []
    assert "No label is flagged." in page.words
    assert not page.having("div", id="workplace")


def test_no_samples_and_an_unknown_rate(write):
    unknown = Interval(*[float("nan")] * 3)
    page = write(0, ["only"], noise_rate=NoiseRate(unknown, (unknown,)), warnings=())
    assert "could not be estimated" in page.words
    assert "All checks passed" in page.words


def test_a_sample_of_the_call_goes_before_that_of_the_findings(tmp_path):
    path = write_report(findings(4), tmp_path / "report.html", sample=lambda index: show(1))
    assert all("text" in content for content in Page(path).data["contents"])


@pytest.mark.parametrize("classes", [1, 2, 20, 21, 100, 101, 1000])
def test_many_classes(classes, tmp_path, write):
    page = write(30, [f"class {i}" for i in range(classes)])
    assert len(page.having("table", id="confusions")) == (classes > 20)
    cells = [a for a in page.having("td") if a.get("class", "").startswith("heat-")]
    assert len(cells) == (classes**2 if classes <= 20 else 0)
    maps = len(page.having("img", **{"class": "matrix"}))
    assert maps == 2 + (classes > 20) if classes <= 100 else maps == 0
    assert (tmp_path / "report.html").stat().st_size < 1.5e6


def test_ten_parts_are_shown(write):
    uniform = np.full((4, 4), 0.25)
    parts = np.stack([np.eye(4) + (uniform - np.eye(4)) * (j / 12) for j in range(12)])
    page = write(parts=parts, part_shares=np.full(12, 1 / 12))
    assert len(re.findall(r"Part \d+:", page.words)) == 10
    assert "The 10 parts that differ most from the mean are shown" in page.words
    assert not write(parts=None, part_shares=None).having("section", id="parts")


def test_bars_are_scaled_to_the_longest_interval(write):
    rates = [Interval(0.1, 0.05, 0.2), Interval(float("nan"), 0.0, 1.0)] * 2
    page = write(noise_rate=NoiseRate(Interval(0.3, 0.25, 0.36), tuple(rates)))
    widths = [bar["width"] for bar in page.having("rect", **{"class": "bar"})]
    assert widths == ["30.0", "50.0", "50.0"]
    spans = [path["d"] for path in page.having("path", **{"class": "span"})]
    assert spans[0] == "M25.0 5H36.0M25.0 2V8M36.0 2V8"
    assert spans[1] == "M25.0 5H100.0M25.0 2V8M100.0 2V8"


def test_percentages_near_the_ends_are_bounds():
    values = (0.0, 0.0004, 0.001, 0.5, 0.9995, 1.0, 1.00001, float("nan"))
    shown = [_percent(value).replace("\N{NO-BREAK SPACE}", " ") for value in values]
    assert shown == [
        "0.0 %", "< 0.1 %", "0.1 %", "50.0 %", "> 99.9 %", "100.0 %", "100.0 %", "unknown"
    ]  # fmt: skip
    assert [_points(value) for value in (0.123, -0.05)] == ["+12.3", "−5.0"]


def test_arguments_are_checked(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="max_samples must be at least 0; got -1"):
        write_report(findings(), tmp_path / "report.html", max_samples=-1)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs Jinja: pip install .ptd_ext\[all\]"):
        write_report(findings(), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", sorted((FOLDER / "assets").glob("*.[cj]s*")), ids=lambda p: p.name)
def test_scripts_and_styles_do_not_end_their_own_elements(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"</(script|style)|<!--", text, re.IGNORECASE)


def test_all_scripts_and_styles_are_on_the_page(tmp_path):
    here = {path.name for path in (FOLDER / "assets").glob("*.[cj]s*")}
    assert here == {f"{name}.js" for name in _SCRIPTS} | {f"{name}.css" for name in _STYLES}
    text = write_report(findings(4), tmp_path / "report.html").read_text()
    assert all((FOLDER / "assets" / name).read_text() in text for name in here)


def test_a_class_that_no_label_names_is_unknown(tmp_path):
    """It is there as a column of pred_probs, or as an empty folder of images."""
    given = np.repeat([0, 1], 50)
    probabilities = np.eye(3)[given] * 0.7 + [0.15, 0.15, 0]
    given[::10] = 1 - given[::10]
    found = find_label_issues(None, given, pred_probs=probabilities)
    page = Page(found.report(tmp_path / "report.html"))
    assert "2 0 0 unknown" in page.words
    longest = max(float(a["d"].split("V8M")[1].split()[0]) for a in page.having("path")[1:3])
    assert longest == 100, "the unknown rate leaves the width to the known ones"
