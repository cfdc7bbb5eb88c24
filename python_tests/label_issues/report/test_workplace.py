"""The page as a workplace, in a real browser: filters, keys, decisions."""

import json

import pytest
from label_issues.report.page_scripts import CURRENT, FOCUSED, SHOWN, STATUS, TALLY
from label_issues.report.report_cases import HOSTILE, NAMES, findings

from ptd_ext.label_issues.report import write_report
from ptd_ext.label_issues.report.gallery import clear_errors, sampling_keys

LAST = "document.querySelectorAll('#samples .status')[{}].textContent"


FIRST = 24  # samples, which are in the list before it scrolls


def flagged(samples=40):
    return [i for i in range(samples) if i % 4 != 3]


def first(browser):
    return browser.run(SHOWN)[:FIRST]


def test_opens_with_the_flagged_labels_in_the_order_that_fixes_most(browser, page):
    browser.open(page)
    assert first(browser) == flagged()[:FIRST]
    assert browser.run(TALLY) == "0 of 30 flagged labels decided."
    assert browser.run("document.querySelectorAll('#samples .content img').length") > 3
    browser.wait_for("document.querySelector('#samples .content img').naturalWidth === 8")


def test_filters_orders_and_searches(browser, page):
    browser.open(page)
    browser.choose("#pair", "1,2")
    assert browser.run(SHOWN) == [i for i in flagged() if i % 4 == 1]
    browser.choose("#pair", "")
    browser.choose("#show", "unflagged")
    assert browser.run(SHOWN) == list(range(3, 40, 4))
    browser.choose("#show", "all")
    for order in ("id", "quality", "probability"):
        browser.choose("#sort", order)
        assert first(browser) == list(range(FIRST)), order
    browser.choose("#sort", "given")
    browser.choose("#show", "flagged")
    # As names are sorted: signs before letters.
    assert [i % 4 for i in first(browser)] == [1] * 10 + [0] * 10 + [2] * 4
    browser.choose("#show", "all")
    for text, found in (
        ("text number 31", [31]),
        ("=1+1", [i for i in range(40) if i % 4 in (2, 3)]),
        ("<script>alert", []),
    ):
        browser.choose("#search", text)
        in_order = f"{SHOWN}.sort((a, b) => a - b)"
        browser.wait_for(
            f"JSON.stringify({in_order}) === '{json.dumps(found, separators=(',', ':'))}'"
        )
    assert browser.run("document.getElementById('panel').hidden")


def test_the_orders_are_those_of_the_findings(browser, tmp_path):
    found = findings()
    browser.open(write_report(found, tmp_path / "report.html"))
    browser.choose("#show", "all")
    fix = (-clear_errors(found.label_quality, found.posterior)).argsort(kind="stable")
    browser.choose("#sort", "fix")
    assert first(browser) == fix.tolist()[:FIRST]
    browser.choose("#sort", "measure")
    rows = flagged() + [i for i in range(40) if i % 4 == 3]  # as the page stores them
    keys = sampling_keys(1 - found.label_quality[rows])
    measured = [rows[i] for i in keys.argsort(kind="stable")]
    assert measured != sorted(measured)
    assert first(browser) == measured[:FIRST]


def test_keys_move_and_decide(browser, page):
    browser.open(page)
    assert browser.run(CURRENT) == 0
    browser.press("a")
    assert browser.run(TALLY).startswith("0 of"), "the list has no focus yet"
    browser.press("j", "j", "j", "k")
    assert browser.run(CURRENT) == browser.run(FOCUSED) == flagged()[1]
    browser.press("A", "r")
    assert browser.run(TALLY) == "2 of 30 flagged labels decided: 1 changed, 1 kept."
    assert browser.run(CURRENT) == browser.run(FOCUSED) == flagged()[3]
    browser.press("u")
    assert browser.run(TALLY) == "1 of 30 flagged labels decided: 1 changed."
    assert browser.run(CURRENT) == flagged()[2]
    line = browser.run(
        "(() => { const t = [...document.querySelectorAll('.sample')].map((r) =>"
        " r.offsetTop); return t.filter((x) => x === t[0]).length; })()"
    )
    assert line > 1
    browser.press("ArrowRight", "ArrowDown", "ArrowLeft")
    assert browser.run(CURRENT) == flagged()[2 + line]
    browser.press("ArrowUp")
    assert browser.run(CURRENT) == flagged()[2]
    browser.press("End")
    assert browser.run(CURRENT) == flagged()[-1]
    browser.press("j", "Home")
    assert browser.run(CURRENT) == 0


def test_every_answer_has_a_key(browser, page):
    browser.open(page)
    browser.press("j", "w", "n", "s", "4", "1", "4")
    said = [browser.run(LAST.format(i)) for i in range(6)]
    assert said == [
        "wrong, true label unknown", "none of the classes", "not sure",
        f"→ {NAMES[3]}", f"→ {NAMES[0]}", f"→ {NAMES[3]}",
    ]  # fmt: skip
    assert browser.run(STATUS) == f"Sample row 006 & <b>: → {NAMES[3]}."
    assert browser.run(TALLY) == (
        "6 of 30 flagged labels decided: 3 changed, 1 wrong with the true label unknown, "
        "1 none of the classes, 1 not sure."
    )
    browser.press("k", "4")
    assert browser.run(LAST.format(5)) == "\xa0", "the key pressed again removes the decision"
    assert "undecided" in browser.run(STATUS)
    browser.choose("#show", "none")
    assert browser.run(SHOWN) == [1]
    browser.choose("#show", "undecided")
    assert first(browser) == [3, *range(6, 40)][:FIRST]


def test_given_label_by_its_number_is_a_confirmation(browser, page):
    browser.open(page)
    browser.press("j", "1")
    assert browser.run(LAST.format(0)) == "cat is right"


def test_classes_are_searched(browser, tmp_path):
    names = [f"class {i:02}" for i in range(30)]
    browser.open(write_report(findings(names=names), tmp_path / "report.html"))
    browser.press("j", "c", "2", "7", "Enter")
    assert browser.run(LAST.format(0)) == "→ class 27"
    assert browser.run(CURRENT) == browser.run(FOCUSED) == 1
    browser.press("c", "x", "Enter")
    assert browser.run(CURRENT) == 1, "no class is found"
    browser.press("Escape", "j")
    assert browser.run(FOCUSED) == 2
    browser.choose("#class-search", "19")
    browser.click("#class-list button")
    assert browser.run(LAST.format(2)) == "→ class 19"


def test_many_classes_are_numbered_by_probability(browser, tmp_path):
    names = [f"class {i:02}" for i in range(30)]
    posterior = findings(names=names).posterior.copy()
    posterior[0, [21, 7]] = 0.6, 0.3
    found = findings(names=names, posterior=posterior)
    browser.open(write_report(found, tmp_path / "report.html"))
    browser.choose("#sort", "id")
    browser.press("j", "2")
    assert browser.run(LAST.format(0)) == "→ class 07"


def test_keys_are_letters_in_fields(browser, page):
    browser.open(page)
    browser.press("/", "a", "r", "j")
    assert browser.run("document.getElementById('search').value") == "arj"
    assert browser.run(TALLY).startswith("0 of")


def test_a_note_is_kept_with_its_decision(browser, page):
    browser.open(page)
    browser.press("j", "m")
    browser.choose("#note", "two things at once")
    browser.press("Escape", "n")
    browser.choose("#show", "note")
    assert browser.run(SHOWN) == [0]
    assert browser.run("document.querySelector('#entries q').textContent") == "two things at once"
    assert browser.run("document.getElementById('note').value") == "two things at once"


def test_the_panel_shows_texts_and_rows_whole(browser, tmp_path):
    from ptd_ext.label_issues.report import Sample

    text, row = "word " * 1000 + "end", {f"column {i}": str(i) for i in range(40)}
    found = findings(sample=lambda i: Sample(text=text) if i == 0 else Sample(row=row))
    browser.open(write_report(found, tmp_path / "report.html"))
    assert browser.run("document.querySelector('#panel .text').textContent") == text
    assert browser.run("document.querySelector('.sample .text').textContent.length") < 1000
    browser.press("j", "j")
    assert browser.run("document.querySelectorAll('#panel dt').length") == 40
    assert browser.run("document.querySelectorAll('.sample dl')[0].children.length") == 12


def test_pictures_are_enlarged(browser, page):
    browser.open(page)
    browser.press("j", "z")
    assert browser.run("document.getElementById('zoom').open")
    width = browser.run("document.querySelector('#zoom img').offsetWidth")
    browser.press("+")
    assert browser.run("document.querySelector('#zoom img').offsetWidth") == 2 * width
    browser.press("z")
    assert not browser.run("document.getElementById('zoom').open")
    assert browser.run(TALLY).startswith("0 of")


def test_a_phone_shows_the_sample_over_the_list(browser, page):
    browser.open(page, 390, 844)
    panel = "document.getElementById('panel')"
    assert browser.run(f"{panel}.offsetHeight") == 0
    browser.run("document.querySelectorAll('.sample')[1].click()")
    assert browser.run(f"{panel}.offsetHeight") == 844
    assert browser.run("document.activeElement.id") == "panel-title"
    browser.click("#answers [data-answer=none]")
    assert browser.run("document.activeElement.id") == "panel-title"
    assert browser.run(CURRENT) == 2
    browser.click("#close")
    assert browser.run(f"{panel}.offsetHeight") == 0
    assert browser.run(FOCUSED) == 2


def test_names_and_roles_are_there_for_a_screen_reader(browser, page):
    browser.open(page)
    browser.press("j", "a")
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    nodes = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"] and "role" in node
    ]
    roles = [role for role, _ in nodes]
    assert roles.count("listitem") >= 24
    assert ("list", "Labels to review") in nodes
    first = f"Sample row 000 & <b>, given label cat, suggested label {HOSTILE}, → {HOSTILE}"
    assert ("listitem", first) in nodes
    for role in ("button", "combobox", "searchbox", "textbox", "progressbar", "image", "region"):
        named = [name for found, name in nodes if found == role]
        assert named, role
        assert all(name.strip() for name in named), f"a {role} has no name"
    assert browser.run("document.getElementById('status').getAttribute('role')") == "status"
    assert browser.run(STATUS) == f"Sample row 000 & <b>: → {HOSTILE}."
    assert browser.run("document.querySelector('.sample').getAttribute('aria-setsize')") == "30"


@pytest.mark.parametrize("count", [1, 2])
def test_few_samples(browser, tmp_path, count):
    browser.open(write_report(findings(count), tmp_path / "report.html"))
    browser.press("j", "a", "a", "ArrowDown", "ArrowUp", "k")
    assert browser.run(CURRENT) == 0
