"""The Python snippets of the README and of every page run as they stand, from top to bottom.

The snippets of a page share their names. Those that they do not define are in snippet_names.py. A
snippet under the line `<!-- not run: REASON -->` is only compiled. Included scripts are tested by
test_examples.py.
"""

import contextlib
import re
from pathlib import Path

import pytest
from package.snippet_names import names

from ptd_ext.engine.methods.registry import METHODS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SNIPPET = re.compile(r"((?:^<!-- not run: .+ -->\n)?)^ *```(?:py|python)\n(.*?)^ *```", re.M | re.S)
MOST_NOT_RUN = 5

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages are not part of the wheel")


def snippets(page):
    """Pairs of code, with the line numbers of the page, and whether it runs."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in SNIPPET.finditer(text):
        mark, code = match.groups()
        if code.startswith("--8<--"):
            continue
        line = text[: match.start(2)].count("\n")
        found.append(("\n" * line + code, not mark))
    return found


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder with the examples of the repository, in which the snippets run."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    before = dict(METHODS)
    yield tmp_path
    METHODS.clear()
    METHODS.update(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if snippets(p)], ids=lambda page: str(page.relative_to(ROOT))
)
@pytest.mark.filterwarnings("ignore:.*independent anchors:UserWarning")
def test_snippets_run(page, elsewhere, capsys):
    namespace = names(elsewhere)
    for code, runs in snippets(page):
        compiled = compile(code, str(page), "exec")
        if runs:
            exec(compiled, namespace)


def test_few_snippets_are_not_run():
    marks = sum(not runs for page in PAGES for _, runs in snippets(page))
    assert marks <= MOST_NOT_RUN


def test_every_command_of_a_page_exists():
    from ptd_ext.cli import COMMANDS

    named = set()
    for page in PAGES:
        for block in re.findall(r"^ *```sh\n(.*?)^ *```", page.read_text(), re.M | re.S):
            named.update(re.findall(r"(?:^|&& )ptd-ext (\w+)", block, re.M))
    assert len(named) >= 5
    assert named <= set(COMMANDS)


# Flags of other programs that pages name.
OTHER_FLAGS = {"--array", "--cases", "--classes", "--csv", "--dist", "--hypothesis-profile"}
OTHER_FLAGS |= {"--nnodes", "--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint"}


def test_every_flag_of_a_page_exists(capsys, monkeypatch):
    from ptd_ext.cli import COMMANDS, main

    monkeypatch.setenv("COLUMNS", "1000")
    for command in COMMANDS:
        for option in ("--help", "--help-all"):
            with contextlib.suppress(SystemExit):  # not every command has both
                main([command, option])
    flag = r"(?<![\w-])--[a-z][a-z0-9-]+"
    known = set(re.findall(flag, capsys.readouterr().out)) | OTHER_FLAGS
    assert {"--help-all", "--relabel", "--shard", "--slack-loss"} <= known
    named = {
        (page.name, found)
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#SBATCH")
        for found in re.findall(flag, line)
    }
    assert sorted(pair for pair in named if pair[1] not in known) == []
