"""The prose of the project follows the rules of style that a pattern can check (prose.py)."""

import pytest
from package import prose


@pytest.fixture(scope="module")
def texts():
    return list(prose.everything())


@pytest.mark.parametrize("kind", ["help", "message", "docstring", "comment", "name", "page"])
def test_rules_of_style(texts, kind):
    found = [(rule, text) for rule, text in prose.broken(texts) if text.kind == kind]
    assert [f"{rule}: {text.place}: {text.text}" for rule, text in found] == []


def test_every_kind_is_found(texts):
    """A collector that finds nothing would pass."""
    shown = {text.text for text in texts}
    assert "show this help message and exit" in shown
    assert any("must be an integer" in text for text in shown)
    assert len({text.kind for text in texts}) == 6


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("of the network", "a fragment that begins with 'of'"),
        ("name: of the argument", "a fragment that begins with 'of'"),
        ("the keys are no strings", "is no"),
        ("data of one's own", "own"),
        ("prints a sentence", "sentence"),
        ("most samples", "most or least"),
        ("least", "most or least"),
        ("the most that the header holds", "most or least"),
    ],
)
def test_rules_find_what_they_name(text, rule):
    assert [each for each, _ in prose.broken([prose.Text("help", "", text)])] == [rule]


@pytest.mark.parametrize(
    "text",
    ["there is no file", "no better than chance", "y is None", "simplex least squares", "at most"],
)
def test_rules_leave_plain_english(text):
    assert list(prose.broken([prose.Text("help", "", text)])) == []
