"""An audit as a mode of the page: nothing shows what the model says."""

import numpy as np
from label_issues.report.page_scripts import READY, SHOWN, TALLY
from label_issues.report.report_cases import NAMES, findings
from label_issues.report.test_decisions import rows_of

from ptd_ext.label_issues.report import write_report
from ptd_ext.label_issues.report.gallery import make_gallery
from ptd_ext.label_issues.report.pictures import Pictures


def test_the_page_holds_nothing_that_the_model_says(tmp_path):
    found = findings()
    audit = found.audit(20)
    gallery = make_gallery(found, NAMES, None, 3, Pictures(tmp_path / "page.html"), audit)
    assert gallery.payload["ids"] == [str(each) for each in audit.ids]
    assert gallery.payload["audit"] == audit.name
    known = {"digest", "classes", "ids", "given", "columns", "contents", "audit"}
    assert set(gallery.payload) == known
    text = found.report(tmp_path / "page.html", audit=audit).read_text()
    for word in ("suggested label</option>", 'id="rates"', 'id="transition"', "flagged</option>"):
        assert word not in text
        assert word in found.report(tmp_path / "whole.html").read_text()


def test_two_audits_do_not_share_decisions(tmp_path):
    found, pictures = findings(), Pictures(tmp_path / "page.html")
    audits = [None, found.audit(20), found.audit(20, random_state=1)]
    pages = [make_gallery(found, NAMES, None, 500, pictures, each) for each in audits]
    assert len({each.payload["digest"] for each in pages}) == 3


def test_a_reviewed_audit_is_evaluated(browser, tmp_path):
    found = findings(sample=None)
    audit = found.audit(20)
    browser.open(write_report(found, tmp_path / "audit.html", audit=audit))
    browser.wait_for(READY)
    order = [int(str(each)[4:7]) for each in audit.ids]
    assert browser.run(SHOWN) == order
    assert browser.run(TALLY) == "0 of 20 labels decided."
    browser.press("j", "a")
    assert browser.run(TALLY) == "0 of 20 labels decided.", "there is no suggestion to accept"
    browser.press(*["r", "w"] * 10)
    assert browser.run(TALLY).startswith("20 of 20 labels decided: 10 kept")
    browser.click("#download")
    content = browser.downloaded("decisions.csv")
    assert {cells[-1] for cells in rows_of(content)[1:]} == {audit.name}
    (tmp_path / "decisions.csv").write_bytes(content)
    measured = found.evaluate(tmp_path / "decisions.csv")
    flagged = found.is_label_issue[audit.positions]
    wrong = np.arange(20) % 2 == 1
    assert measured.precision.estimate == wrong[flagged].mean()
