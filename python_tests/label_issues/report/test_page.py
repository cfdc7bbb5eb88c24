"""The page as a file: what is in it, what cannot be, how large it is."""

import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from label_issues.report_cases import HOSTILE, NAMES, contents, show

import ptd_ext.label_issues.report as report
from ptd_ext import find_label_issues
from ptd_ext.label_issues.report import Interval, Sample, gallery, write_report
from ptd_ext.label_issues.report.figures import curve, heat_levels, heat_picture

FOLDER = Path(report.__file__).parent


class Page(HTMLParser):
    """The elements of a page, and the texts of its scripts."""

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
    def written(*args, most_samples=500, **changes):
        path = tmp_path / "report.html"
        assert write_report(contents(*args, **changes), path, most_samples=most_samples) == path
        assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
        return Page(path)

    return written


def test_texts_of_the_data_stay_texts(write):
    page = write()
    assert len(page.scripts) == 4, "the data and the page's own three scripts"
    assert page.data["classes"] == NAMES
    assert page.data["samples"][0] == ["row 000 & <b>", 0, 1, True]
    assert page.words.count(HOSTILE) > 40
    assert not page.having("b")
    assert all("onerror" not in attributes for _, attributes in page.elements)


def test_nothing_is_fetched_and_only_own_scripts_run(write):
    page = write()
    policy = page.having("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} has the handler {name}"
            assert name != "style", f"{tag} has a style of its own, which the policy forbids"
            if name in ("src", "href"):
                assert value.startswith(("data:image/png;base64,", "#")), f"{tag} loads {value}"


def test_pictures_have_alt_texts(write):
    page = write()
    assert len(page.having("img")) > 10
    assert all(attributes["alt"].strip() for attributes in page.having("img"))
    assert all(a.get("aria-label") or a.get("aria-hidden") for a in page.having("svg"))


def test_gallery_has_the_flagged_first_then_the_most_doubtful(write):
    page = write(12, most_samples=10)
    ids = [int(sample[0][4:7]) for sample in page.data["samples"]]
    assert ids == [0, 1, 2, 4, 5, 6, 8, 9, 10, 3]
    assert "All 9 flagged labels" in page.words
    assert "The 5 most doubtful of 9 flagged labels." in write(12, most_samples=5).words


def test_a_doubt_without_a_likelier_label_is_not_shown(write):
    index = np.arange(8)
    page = write(8, suggested=np.where(index % 4 == 3, index % 4, (index + 1) % 4))
    assert len(page.data["samples"]) == 6
    page = write(8, suggested_probability=np.where(index == 7, 0.01, 0.9))
    assert [int(sample[0][4:7]) for sample in page.data["samples"]] == [0, 1, 2, 4, 5, 6, 3]


def test_without_flags_there_is_no_gallery(write):
    def never(index):
        raise AssertionError("no sample is to be shown")

    page = write(is_label_issue=np.zeros(40, bool), sample=never)
    assert page.data["samples"] == []
    assert "none is flagged." in page.words
    assert not page.having("table", id="samples")


def test_no_samples_and_an_unknown_rate(write):
    unknown = Interval(*[float("nan")] * 3)
    page = write(0, ["only"], noise_rate=unknown, noise_rate_by_class=[unknown], warnings=[])
    assert "could not be estimated" in page.words
    assert "No check raised a doubt" in page.words


def test_size_is_bounded(write, monkeypatch):
    monkeypatch.setattr(gallery, "_MOST_PICTURE_BYTES", 3000)
    pictures = write(sample=lambda index: show(0))
    shown = pictures.having("img", **{"class": "pixels"})
    assert 0 < len(shown) < 30
    assert pictures.words.count("The picture is left out") == 40 - len(shown)
    assert "x" * 1999 + "…" in write(sample=lambda index: Sample(text="x" * 10**6)).words
    rows = write(sample=lambda index: Sample(row={f"c{i}": "y" * 10**5 for i in range(60)}))
    assert "10 more columns are left out." in rows.words
    assert "y" * 201 not in rows.text


@pytest.mark.parametrize("classes", [1, 2, 20, 21, 100, 101, 1000])
def test_many_classes(classes, tmp_path, write):
    page = write(30, [f"class {i}" for i in range(classes)])
    assert len(page.having("table", id="confusions")) == (classes > 20)
    cells = [a for a in page.having("td") if a.get("class", "").startswith("heat-")]
    assert len(cells) == (classes**2 if classes <= 20 else 0)
    maps = len(page.having("img", **{"class": "matrix"}))
    assert maps == 2 + (classes > 20) if classes <= 100 else maps == 0
    assert (tmp_path / "report.html").stat().st_size < 1.5e6


def test_parts_that_differ_most_come_first_and_are_ten(write):
    average = contents().transition
    uniform = np.full((4, 4), 0.25)
    parts = np.stack([average + (uniform - average) * (j / 12) for j in range(12)])
    page = write(parts=parts, part_shares=np.full(12, 1 / 12))
    shown = re.findall(r"Part (\d+)", " ".join(re.findall(r"Part \d+:", page.words)))
    assert [int(part) for part in shown] == list(range(12, 2, -1))
    assert "for the 10 parts that differ most" in page.words


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"class_names": []}, "class_names must name at least one"),
        ({"given": np.zeros(39, int)}, r"given must have the shape \[40\]; got \[39\]"),
        ({"given": np.full(40, 4)}, "indices into the 4 class_names; got 4 to 4"),
        ({"suggested": np.zeros(40)}, "suggested must hold integers; got float64"),
        ({"label_quality": np.full(40, np.nan)}, "label_quality must be probabilities; got nan"),
        ({"is_label_issue": np.zeros(40, int)}, "is_label_issue must hold booleans"),
        ({"noise_rate": Interval(0.3, 0.4, 0.5)}, "noise_rate must have 0 ≤ low ≤ estimate"),
        ({"noise_rate_by_class": []}, "for each of the 4 classes; got 0"),
        ({"transition": np.eye(3)}, r"transition must have the shape \[4, 4\]; got \[3, 3\]"),
        ({"parts": np.ones((2, 4, 3))}, r"parts must have the shape \[2, 4, 4\]"),
        ({"part_shares": None}, "part_shares must be given with parts"),
    ],
)
def test_contents_that_do_not_fit(changes, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        write_report(replace(contents(), **changes), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_a_sample_is_one_thing():
    with pytest.raises(ValueError, match="exactly one of png, text and row; got none"):
        Sample()
    with pytest.raises(ValueError, match="got png and text"):
        Sample(png=b"", text="")
    with pytest.raises(ValueError, match="must be the bytes of a PNG file"):
        Sample(png=b"GIF89a")


def test_heat_maps_show_the_values():
    image = pytest.importorskip("PIL.Image")
    values = np.array([[0.0, 1.0], [-1.0, 0.5]])
    pixels = np.asarray(image.open(io.BytesIO(heat_picture(values))).convert("RGBA")).astype(int)
    assert pixels[..., 3].tolist() == [[0, 255], [255, 129]]  # 64 of 127 steps
    assert pixels[1, 0, 0] > pixels[1, 0, 2], "below zero is orange"
    assert pixels[0, 1, 0] < pixels[0, 1, 2], "above zero is blue"
    assert heat_levels(np.array([0, 0.01, 0.25, 1, 1.0001])).tolist() == [0, 1, 4, 9, 9]


def test_curves_have_gaps_and_a_bound():
    drawn = curve("loss", [2.0, 1.0, float("nan"), 0.0])
    assert drawn.path == "M0.0 0.0L0.0 0.0L100.0 60.0M300.0 120.0L300.0 120.0"
    assert (drawn.top, drawn.bottom, drawn.epochs) == ("2", "0", 4)
    assert curve("none", [float("inf")]) is None
    assert len(curve("long", np.arange(1e5)).path) < 20_000


def test_scripts_of_others_are_those_named():
    named = re.findall(r"`([\w.]+\.js)`.*`([\w-]+\.txt)` \| `(\w{64})`", _vendor("README.md"))
    assert len(named) == 2
    for script, licence, digest in named:
        assert hashlib.sha256((FOLDER / "vendor" / script).read_bytes()).hexdigest() == digest
        assert "Permission is hereby granted" in _vendor(licence)


def _vendor(name):
    return (FOLDER / "vendor" / name).read_text(encoding="utf-8")


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
