"""The page in a real browser, headless Chromium; without one the tests are skipped."""

import csv
import io
import os

import numpy as np
import pytest
from label_issues.report.report_browser import CHROMIUM, Browser
from label_issues.report.report_cases import NAMES, findings

from ptd_ext.label_issues.report import Sample, write_report
from ptd_ext.utils.png import heat_picture

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")

# The ids that are on the page, in order, and the sample that the keyboard is at.
SHOWN = (
    "[...document.querySelectorAll('#samples tbody .id bdi')]"
    ".map((e) => +e.textContent.slice(4, 7))"
)
CURRENT = "+document.querySelector('[aria-current] .id bdi')?.textContent.slice(4, 7)"
TALLY = "document.getElementById('tally').textContent"

# The texts with less contrast to their background than WCAG AA asks: 3 for large ones, else 4.5.
# Chromium gives colours as rgb(…) of 255 or color(srgb …) of 1.
CONTRAST = """(() => {
  const parts = (colour) => {
    const numbers = colour.match(/-?[\\d.]+(e-?\\d+)?/g).map(Number);
    const scale = colour.startsWith('rgb') ? 255 : 1;
    return [numbers.slice(0, 3).map((n) => n / scale), numbers[3] ?? 1];
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const [rgb, opacity] = parts(getComputedStyle(e).backgroundColor);
      if (opacity === 1) return rgb;
      if (opacity !== 0) throw new Error('a background is half transparent');
    }
    throw new Error('the page has no background');
  };
  const failed = [];
  let count = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest('script, style, option, .aside')) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(parts(style.color)[0]), luminance(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    count += 1;
    if (contrast < (large ? 3 : 4.5)) {
      failed.push(`${contrast.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 40)}`);
    }
  }
  return { count, failed: [...new Set(failed)] };
})()"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium):
    chromium.errors.clear()
    yield chromium
    chromium.run("try { localStorage.clear() } catch {}")  # pages of equal content share it
    assert chromium.errors == []
    assert not chromium.run("'hacked' in window")


@pytest.fixture
def page(tmp_path):
    return write_report(findings(), tmp_path / "report.html")


def flagged(samples=40):
    return [i for i in range(samples) if i % 4 != 3]


def test_opens_with_the_most_doubtful_first(browser, page):
    browser.open(page)
    assert browser.run(SHOWN) == flagged()[:24]
    assert browser.run(TALLY) == "0 accepted, 0 rejected, 30 flagged labels undecided."
    assert browser.run("document.querySelectorAll('#samples .content img').length") > 3
    assert browser.run("document.querySelector('#samples .content img').naturalWidth") == 8


def test_filters_sorts_searches_and_pages(browser, page):
    browser.open(page)
    browser.choose("#pair", "1,2")
    assert browser.run(SHOWN) == [i for i in flagged() if i % 4 == 1]
    browser.choose("#pair", "")
    browser.choose("#show", "unflagged")
    assert browser.run(SHOWN) == list(range(3, 40, 4))
    browser.choose("#show", "all")
    browser.choose("#sort", "2,asc")
    assert browser.run(SHOWN) == list(range(24))
    browser.choose("#sort", "6,desc")
    assert browser.run(SHOWN) == list(range(24))
    browser.choose("#sort", "4,asc")
    browser.click(".dt-paging-button.next")
    assert browser.run(SHOWN) == list(range(24, 40))
    browser.choose("#search", "text number 31")
    assert browser.run(SHOWN) == [31]
    browser.choose("#search", "=1+1")
    assert browser.run(SHOWN) == [i for i in range(40) if i % 4 in (2, 3)]
    browser.choose("#search", "<script>alert")
    assert (
        browser.run("document.querySelector('#samples tbody').textContent")
        == "No matching samples."
    )
    browser.choose("#search", "")
    browser.choose("#view", "table")
    browser.click("#samples thead th:nth-child(4)")
    browser.wait_for(f"{SHOWN}.every((id, i) => id % 4 === [1, 3, 0, 2][Math.floor(i / 10)])")
    browser.click("#samples thead th:nth-child(3)")
    browser.wait_for(f"{SHOWN}.every((id, i) => id === i)")


def test_keys_move_and_decide(browser, page):
    browser.open(page)
    browser.press("j", "j", "j", "k")
    assert browser.run(CURRENT) == flagged()[1]
    browser.press("A", "r")
    assert browser.run(TALLY) == "1 accepted, 1 rejected, 28 flagged labels undecided."
    assert browser.run(CURRENT) == flagged()[3]
    browser.press("u")
    assert browser.run(TALLY) == "1 accepted, 0 rejected, 29 flagged labels undecided."
    assert browser.run(CURRENT) == flagged()[2]
    line = browser.run(
        "(() => { const t = [...document.querySelectorAll('#samples tbody tr')].map((r) =>"
        " r.offsetTop); return t.filter((x) => x === t[0]).length; })()"
    )
    browser.press("ArrowRight", "ArrowDown", "ArrowLeft")
    assert browser.run(CURRENT) == flagged()[2 + line]
    browser.press("ArrowUp")
    assert browser.run(CURRENT) == flagged()[2]
    browser.press(*["j"] * 22)
    assert browser.run(CURRENT) == flagged()[24], "the next page follows by itself"
    assert browser.run(SHOWN) == flagged()[24:]
    browser.press(*["j"] * 9)
    assert browser.run(CURRENT) == flagged()[-1]


def test_keys_are_letters_in_the_search_field(browser, page):
    browser.open(page)
    browser.press("/", "a", "r", "j")
    assert browser.run("document.getElementById('search').value") == "arj"
    assert browser.run(TALLY).startswith("0 accepted")


def test_decisions_survive_and_are_downloaded(browser, page):
    browser.open(page)
    browser.click("#samples tbody tr:nth-child(1) .accept")
    browser.click("#samples tbody tr:nth-child(2) .reject")
    browser.click("#samples tbody tr:nth-child(3) .accept")
    browser.click("#samples tbody tr:nth-child(3) .accept")  # open again
    browser.open(page)
    assert browser.run(TALLY) == "1 accepted, 1 rejected, 28 flagged labels undecided."
    browser.choose("#show", "accepted")
    assert browser.run(SHOWN) == [0]
    browser.choose("#show", "all")
    browser.click("#download")
    text = browser.downloaded("corrections.csv").decode("utf-8")
    assert text.count("\r\n") == 3
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["id", "given_label", "suggested_label", "decision", "corrected_label"],
        ["row 000 & <b>", NAMES[0], NAMES[1], "accepted", NAMES[1]],
        ["row 001 & <b>", NAMES[1], NAMES[2], "rejected", NAMES[1]],
    ]
    for _ in range(4):
        browser.click("#undo")
    assert browser.run(TALLY).startswith("0 accepted, 0 rejected")
    assert browser.run("document.getElementById('download').disabled")
    warned = "document.getElementById('review').textContent.includes('import its columns')"
    assert browser.run(warned), "a class is called =1+1"


def test_downloaded_strings_read_back(browser, tmp_path):
    """Every string: line breaks, quotes, and bytes of file names that are not UTF-8."""
    ids = ["a\rb", "a\r\nb", 'say "hi", you', " a ", "\ufeffa", "a\u2028b", "ä😀"]
    ids.append(os.fsdecode(b"\xff\xc3(\xe9.png"))
    flagged = np.ones(len(ids), dtype=bool)
    found = findings(len(ids), ids=np.array(ids, dtype=object), is_label_issue=flagged)
    browser.open(write_report(found, tmp_path / "report.html"))
    browser.run("document.querySelectorAll('#samples tbody .accept').forEach((b) => b.click())")
    browser.click("#download")
    text = browser.downloaded("corrections.csv").decode("utf-8", "surrogateescape")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert sorted(row[0] for row in rows[1:]) == sorted(ids)


def test_works_without_storage(browser, page):
    broken = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })"
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=broken)
    browser.open(page)
    browser.press("j", "a")
    assert browser.run(TALLY).startswith("1 accepted")
    assert "cannot save decisions" in browser.run("document.getElementById('saved').textContent")
    browser.call("Page.removeScriptToEvaluateOnNewDocument", **script)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(browser, page, scheme):
    browser.scheme(scheme)
    browser.open(page)
    browser.press("j", "a", "r")
    for view in ("cards", "table"):
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


# The words of class names that are broken in two, the fields of the cards of the first line that
# are not level, and the pictures that are cropped or distorted.
CARDS = """(() => {
  const broken = [];
  const names = '#samples :is(.given, .suggested) bdi, #classes tbody th, table.matrix tbody th, ' +
    '.differences bdi, #confusions td:not(.number)';
  const seen = {};
  for (const name of document.querySelectorAll(names)) {
    const text = name.firstChild;
    seen[name.closest('[id]').id] = true;
    for (const word of text.data.matchAll(/[A-Za-z]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (range.getClientRects().length !== 1) broken.push(word[0]);
    }
  }
  const rows = [...document.querySelectorAll('#samples tbody tr')];
  const line = rows.filter((row) => row.offsetTop === rows[0].offsetTop);
  const uneven = ['.given', '.label-quality', '.suggested', '.suggested-probability', '.decide']
    .filter((field) => new Set(line.map((row) =>
      row.querySelector(field).getBoundingClientRect().top)).size > 1);
  const cropped = [...document.querySelectorAll('#samples .content img')].filter((img) => {
    const [box, cell] = [img, img.parentElement].map((e) => e.getBoundingClientRect());
    return getComputedStyle(img).objectFit !== 'contain' || box.right > cell.right + 0.5 ||
      box.bottom > cell.bottom + 0.5;
  }).length;
  return {
    broken: [...new Set(broken)], uneven, cropped, line: line.length, seen: Object.keys(seen),
  };
})()"""


@pytest.mark.parametrize("width", [390, 800, 1200])
def test_cards_keep_words_whole_and_rows_level(browser, tmp_path, width):
    names = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker"]
    names += ["Bag", "Ankle boot", "Scientific instrument", "=1+1"]
    sizes = [(28, 28), (28, 80), (90, 30)]
    found = findings(
        24, names, sample=lambda i: Sample(png=heat_picture(np.full(sizes[i % 3], 0.5)))
    )
    browser.open(found.report(tmp_path / "report.html"), width)
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
    rates = "document.getElementById('classes').closest('.scroll')"
    assert browser.run(f"{rates}.scrollWidth <= {rates}.clientWidth")


def test_what_gets_into_the_page_all_the_same_does_not_run(browser, page):
    """The content security policy holds even where a string of the data is not escaped."""
    addition = (
        "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
        "<img src='https://example.com/x.png'></body>"
    )
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", addition), encoding="utf-8")
    browser.open(page)
    assert browser.run(SHOWN) == flagged()[:24]
    refused = [e for e in browser.errors if "Content Security Policy" in e]
    assert len(refused) >= 3
    browser.errors[:] = [e for e in browser.errors if e not in refused]
