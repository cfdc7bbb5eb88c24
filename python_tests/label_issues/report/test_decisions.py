"""Decisions on the page: kept, downloaded, imported, merged."""

import csv
import io
import os

import numpy as np
import pytest
from label_issues.report.page_scripts import MESSAGE, SHOWN, TALLY
from label_issues.report.report_cases import NAMES, findings

from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.label_issues import Answer, read_decisions
from ptd_ext.label_issues.report import write_report
from ptd_ext.label_issues.review.decisions import COLUMNS


def rows_of(content):
    text = content.decode("utf-8", "surrogateescape")
    return list(csv.reader(io.StringIO(text, newline="")))


def download(browser):
    browser.click("#download")
    return rows_of(browser.downloaded("decisions.csv"))


def upload(browser, path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    browser.run("document.getElementById('message').textContent = ''")
    browser.upload("#file", path)
    browser.wait_for(f"{MESSAGE} !== ''")
    return browser.run(MESSAGE)


def row(number):
    return f"row {number:03} & <b>"


def test_decisions_survive_a_reload_and_are_downloaded(browser, page):
    browser.open(page)
    browser.choose("#reviewer", "Ann")
    browser.press("j", "a", "r", "w", "n", "s")
    browser.open(page)
    browser.wait_for(f"{TALLY}.startsWith('5 of 30')")
    assert browser.run("document.getElementById('reviewer').value") == "Ann"
    browser.choose("#show", "corrected")
    assert browser.run(SHOWN) == [0]
    header, *rows = download(browser)
    assert header == list(COLUMNS)
    assert [[*cells[:5], cells[6]] for cells in rows] == [
        [row(0), NAMES[0], "corrected", NAMES[1], "Ann", ""],
        [row(1), NAMES[1], "confirmed", NAMES[1], "Ann", ""],
        [row(2), NAMES[2], "wrong", "", "Ann", ""],
        [row(4), NAMES[0], "none", "", "Ann", ""],
        [row(5), NAMES[1], "unsure", "", "Ann", ""],
    ]
    assert all(cells[5].endswith("Z") for cells in rows)
    assert browser.run("document.getElementById('undo').disabled"), "nothing was changed since"
    warned = "document.getElementById('review').textContent.includes('import its columns')"
    assert browser.run(warned), "a class is called =1+1"


def test_the_package_reads_the_file(browser, page, tmp_path):
    browser.open(page)
    browser.choose("#reviewer", "Ann")
    browser.press("j", "a", "r", "w", "n", "s")
    browser.click("#download")
    (tmp_path / "decisions.csv").write_bytes(browser.downloaded("decisions.csv"))
    found = findings()
    labels = GivenLabels(found.class_indices(found.given_label), found.classes)
    read = read_decisions(tmp_path / "decisions.csv", found.ids, labels)
    assert [each.answer for each in read] == [
        Answer.CORRECTED, Answer.CONFIRMED, Answer.WRONG, Answer.NONE, Answer.UNSURE
    ]  # fmt: skip
    assert [each.verified_label for each in read][:3] == [NAMES[1], NAMES[1], None]
    assert {each.reviewer for each in read} == {"Ann"}


def test_a_removed_decision_stays_removed(browser, page):
    browser.open(page)
    browser.press("j", "a", "r", "u", "u")
    assert browser.run(TALLY).startswith("0 of 30")
    assert browser.run("document.getElementById('download').disabled")
    browser.open(page)
    browser.wait_for(f"{TALLY}.startsWith('0 of 30')")


def test_downloaded_strings_read_back(browser, tmp_path):
    """Every string: line breaks, quotes, and bytes of file names that are not UTF-8."""
    ids = ["a\rb", "a\r\nb", 'say "hi", you', " a ", "\ufeffa", "a\u2028b", "ä😀", '"', "x,"]
    ids.append(os.fsdecode(b"\xff\xc3(\xe9.png"))
    flagged = np.ones(len(ids), dtype=bool)
    found = findings(len(ids), ids=np.array(ids, dtype=object), is_label_issue=flagged)
    path = write_report(found, tmp_path / "report.html")
    browser.open(path)
    browser.press("j", *["n"] * len(ids))
    browser.click("#download")
    content = browser.downloaded("decisions.csv")
    assert [cells[0] for cells in rows_of(content)[1:]] == ids
    # The page reads it, too.
    browser.run("localStorage.clear()")
    browser.open(path)
    (tmp_path / "decisions.csv").write_bytes(content)
    browser.upload("#file", tmp_path / "decisions.csv")
    browser.wait_for(
        f"{MESSAGE} === '{len(ids)} decisions read, of which {len(ids)} change a sample.'"
    )
    assert browser.run(TALLY).startswith(f"{len(ids)} of {len(ids)}")


def test_decisions_of_others_are_merged_and_conflicts_settled(browser, page, tmp_path):
    browser.open(page)
    browser.choose("#reviewer", "Ann")
    browser.press("j", "a", "r", "w")
    late = "2999-01-01T00:00:00.000Z"
    said = upload(browser, tmp_path / "ben.csv", [
        COLUMNS,
        [row(0), NAMES[0], "confirmed", NAMES[0], "Ben", late, "looks right", ""],
        [row(1), NAMES[1], "unsure", "", "Ben", late, "", ""],
        [row(2), NAMES[2], "corrected", NAMES[3], "Ben", late, "", ""],
        [row(4), NAMES[0], "none", "", "Ben", late, "", ""],
        ["elsewhere", NAMES[0], "none", "", "Ben", late, "", ""],
    ])  # fmt: skip
    assert said.startswith("5 decisions read, of which 5 change a sample; 1 are about rows that")
    assert "1 samples have decisions that contradict" in said
    # The most specific decision counts where reviewers do not contradict each other.
    tally = "3 of 30 flagged labels decided: 1 changed, 1 kept, 1 none of the classes, 1 conflict."
    assert browser.run(TALLY) == tally
    browser.choose("#show", "conflict")
    assert browser.run(SHOWN) == [0]
    entries = browser.run("[...document.querySelectorAll('#entries li')].map((e) => e.textContent)")
    assert entries[0] == "The decisions contradict each other."
    assert f"→ {NAMES[1]} (Ann" in entries[1]
    assert "cat is right (Ben" in entries[2]
    assert "looks right" in entries[2]
    assert "elsewhere" in [cells[0] for cells in download(browser)]
    browser.click("#entries li:nth-child(3) button")
    assert browser.run(TALLY).startswith("4 of 30 flagged labels decided: 1 changed, 2 kept")
    settled = [cells for cells in download(browser) if cells[0] == row(0)]
    assert len(settled) == 1
    assert settled[0][2:5] == ["confirmed", "cat", "Ann"]
    assert settled[0][6] == f"looks right; settled (Ann: → {NAMES[1]}; Ben: cat is right)"
    browser.press("u")
    assert browser.run(TALLY) == tally


def test_of_one_reviewer_the_latest_decision_counts(browser, page, tmp_path):
    browser.open(page)
    decisions = [COLUMNS]
    for day, decision in ((2, "wrong"), (3, "none"), (1, "unsure")):
        decisions.append([row(0), NAMES[0], decision, "", "Ben", f"2026-01-0{day}", "", ""])
    upload(browser, tmp_path / "ben.csv", decisions)
    assert [cells[2] for cells in download(browser)[1:]] == ["none"]
    assert "1 decisions read, of which 0" in upload(browser, tmp_path / "old.csv", [*decisions[:2]])
    assert [cells[2] for cells in download(browser)[1:]] == ["none"]


def test_corrections_of_earlier_reports_are_imported(browser, page, tmp_path):
    browser.open(page)
    header = ["id", "given_label", "suggested_label", "decision", "corrected_label"]
    accepted = [row(0), NAMES[0], NAMES[1], "accepted", NAMES[1]]
    rejected = [row(1), NAMES[1], NAMES[2], "rejected", NAMES[1]]
    upload(browser, tmp_path / "corrections.csv", [header, accepted, rejected])
    found = [cells[2:4] for cells in download(browser)[1:]]
    assert found == [["corrected", NAMES[1]], ["confirmed", NAMES[1]]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["id", "x"], ["a", "b"]], "the file has no column decision"),
        ([COLUMNS[:4], ["a", "cat", "perhaps", ""]], 'row 1 has the unknown decision "perhaps"'),
        (
            [COLUMNS[:4], ["a", "cat", "corrected", "cow"]],
            'has the label "cow", which is not a class',
        ),
    ],
)
def test_a_file_that_cannot_be_imported_changes_nothing(browser, page, tmp_path, rows, message):
    browser.open(page)
    browser.press("j", "a")
    assert message in upload(browser, tmp_path / "bad.csv", rows)
    assert browser.run(TALLY).startswith("1 of 30")


def test_works_without_storage(browser, page):
    broken = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })"
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=broken)
    browser.open(page)
    browser.press("j", "a")
    assert browser.run(TALLY).startswith("1 of 30")
    browser.wait_for(
        "document.getElementById('saved').textContent.includes('cannot save decisions')"
    )
    browser.call("Page.removeScriptToEvaluateOnNewDocument", **script)
