"""How the page looks in a real browser: contrast, whole words, phones, and what must not run."""

import numpy as np
import pytest
from label_issues.report.page_scripts import CARDS, CONTRAST, SHOWN
from label_issues.report.report_cases import NAMES, findings

from ptd_ext.label_issues.report import Sample, write_report
from ptd_ext.utils.png import heat_picture


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(browser, page, scheme):
    browser.scheme(scheme)
    browser.open(page)
    browser.press("j", "a", "r", "w", "n", "s", "k")
    for view in ("cards", "lines"):
        browser.choose("#view", view)
        measured = browser.run(CONTRAST)
        assert measured["count"] > 200
        assert measured["failed"] == []
    dark = browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert dark == (scheme == "dark")
    # Every level of the heat map has been seen or is tried now.
    for level in range(10):
        browser.run(f"document.querySelector('table.matrix tbody td').className = 'heat-{level}'")
        assert browser.run(CONTRAST)["failed"] == []
    browser.call("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("width", [390, 800, 1200])
def test_cards_keep_words_whole_and_rows_level(browser, tmp_path, width):
    names = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker"]
    names += ["Bag", "Ankle boot", "Scientific instrument", "=1+1"]
    sizes = [(28, 28), (28, 80), (90, 30)]
    found = findings(
        24, names, sample=lambda i: Sample(png=heat_picture(np.full(sizes[i % 3], 0.5)))
    )
    browser.open(found.report(tmp_path / "report.html"), width)
    browser.run("document.querySelectorAll('#samples .accept')[1].click()")
    found = browser.run(CARDS)
    assert found.pop("line") > 1
    assert set(found.pop("seen")) == {"samples", "classes", "transition", "parts"}
    assert found == {"broken": [], "uneven": [], "cropped": 0}


@pytest.mark.parametrize("width", [320, 390])
@pytest.mark.parametrize("classes", [4, 20, 50])
def test_a_phone_needs_no_sideways_scrolling(browser, tmp_path, width, classes):
    names = NAMES if classes == 4 else [f"a-rather-long-class-name-{i}" for i in range(classes)]
    browser.open(write_report(findings(names=names), tmp_path / "report.html"), width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("document.querySelector('.sample').click()")  # the panel is over the list
    for box in (".scroll:has(#classes)", "#samples", "#panel"):
        element = f"document.querySelector('{box}')"
        assert browser.run(f"{element}.clientWidth") > 200
        assert browser.run(f"{element}.scrollWidth <= {element}.clientWidth"), box


def test_what_gets_into_the_page_all_the_same_does_not_run(browser, page):
    """The content security policy holds even where a string of the data is not escaped."""
    addition = (
        "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
        "<img src='https://example.com/x.png'></body>"
    )
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", addition), encoding="utf-8")
    browser.open(page)
    assert browser.run(f"{SHOWN}.length") >= 24
    refused = [e for e in browser.errors if "Content Security Policy" in e]
    assert len(refused) >= 3
    browser.errors[:] = [e for e in browser.errors if e not in refused]


def test_tables_are_sorted_by_their_headers(browser, page):
    browser.open(page)
    counts = (
        "[...document.querySelectorAll('#classes tbody tr')].map((r) => r.cells[2].dataset.order)"
    )
    browser.run("document.querySelectorAll('#classes tbody tr')[1].cells[2].dataset.order = '99'")
    browser.click("#classes thead th:nth-child(3) button")
    assert browser.run(counts)[-1] == "99"
    browser.click("#classes thead th:nth-child(3) button")
    assert browser.run(counts)[0] == "99"
    header = "document.querySelector('#classes thead th:nth-child(3)')"
    assert browser.run(f"{header}.getAttribute('aria-sort')") == "descending"
