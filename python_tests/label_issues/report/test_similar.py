"""The most similar rows, beside the current one."""

import numpy as np
import pytest
from label_issues.report.report_cases import findings, show

from ptd_ext.label_issues.report.similar import similar_rows


def pairs(rows=40):
    """Rows 2i and 2i + 1 point the same way, and nothing else does."""
    return np.repeat(np.eye(rows // 2), 2, axis=0)


def test_near_duplicates_come_first():
    similar = similar_rows(pairs(), 40)
    assert similar.shape == (40, 3)
    assert similar[:, 0].tolist() == [row ^ 1 for row in range(40)]
    assert similar_rows(pairs(2), 2).tolist() == [[1], [0]]


@pytest.mark.parametrize("features", [np.ones((3, 2)), np.ones(40), np.full((40, 2), np.nan)])
def test_other_features_are_rejected(features):
    with pytest.raises(ValueError, match=r"features must be finite and of shape \[40, D\]; got"):
        similar_rows(features, 40)


def test_the_page_shows_them_with_their_labels(browser, tmp_path):
    path = tmp_path / "report.html"
    browser.open(findings(sample=show).report(path, features=pairs()))
    browser.press("j", "j")
    cards = "[...document.querySelectorAll('#neighbours li')]"
    first = browser.run(f"{cards}[0].textContent")
    assert first.endswith("cat (another label) · row 000 & <b>")
    assert browser.run(f"{cards}.length") == 3
    assert browser.run(f"{cards}[0].querySelectorAll('img').length") == 1
    browser.open(findings(sample=show).report(path))
    assert browser.run(f"{cards}.length") == 0
    audit = findings(sample=show).audit(10)
    browser.open(findings(sample=show).report(path, features=pairs(), audit=audit))
    assert browser.run(f"{cards}.length") == 0, "their labels would be hints"
