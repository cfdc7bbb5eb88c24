"""A browser for the tests of the page: headless Chromium."""

import pytest
from label_issues.report.report_browser import CHROMIUM, Browser
from label_issues.report.report_cases import findings

from ptd_ext.label_issues.report import write_report


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt install chromium")
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
