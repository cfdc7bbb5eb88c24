"""The documentation names what there is, and the README stays short."""

import re
from pathlib import Path

import pytest

import ptd_ext
from ptd_ext.train.methods.registry import METHODS

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages are not part of the wheel")


def test_every_public_name_is_on_an_api_page():
    pages = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    named = set(re.findall(r"^::: ptd_ext\.(\w+)$", pages, re.MULTILINE))
    assert set(ptd_ext.__all__) - {"build_info"} - named == set()


def test_every_method_is_explained():
    page = (DOCS / "methods.md").read_text()
    table = "".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))
    assert [name for name in METHODS if name not in table] == []


def test_included_scripts_exist():
    """A line that a formatter has changed is shown as it stands instead of the script."""
    pages = "".join(page.read_text() for page in DOCS.glob("*.md"))
    included = re.findall(r"^-+8.*", pages, re.MULTILINE)
    names = [re.fullmatch(r'--8<-- "([^":]+)[:\d]*"', line) for line in included]
    assert len(names) >= 10
    assert [line for line, name in zip(included, names, strict=True) if name is None] == []
    assert [name[1] for name in names if not (ROOT / name[1]).exists()] == []


def test_readme_is_short_and_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []
