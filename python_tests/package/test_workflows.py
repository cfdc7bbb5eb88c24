"""The supply chain of CI: actions by commit, tools by hash, torch alone from its own index."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPTS = [path for path in (ROOT / ".ci").glob("*") if path.is_file()]

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="the workflows are not part of the wheel")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(workflow):
    uses = re.findall(r"uses: (.*)", workflow.read_text())
    pinned = re.compile(r"[\w/.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in uses if not pinned.fullmatch(line)] == []


@pytest.mark.parametrize("path", [*WORKFLOWS, *SCRIPTS], ids=lambda path: path.name)
def test_tools_are_installed_by_hash(path):
    """Only the package and torch are installed without: their files are built or chosen in CI.

    `.ci/tests` tries versions of torch, and the newest versions of everything else.
    """
    installs = re.findall(r"pip\"? install (.*)", path.read_text())
    by_hash = re.compile(
        r"(--quiet )?--require-hashes (--only-binary :all: )?-r \.ci/locks/\w+\.txt"
    )
    allowed = re.compile(r".*(--no-deps|torch|\$index).*|--quiet uv")
    found = [line for line in installs if not (by_hash.match(line) or allowed.match(line))]
    assert found == (['".[test]"'] if path.name == "tests" else [])


def test_the_mutation_score_of_every_area_is_measured():
    from mutation.areas import AREAS

    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    measured = re.search(r"areas:\n((?: +- .*\n)+)", nightly)[1]
    assert sorted(measured.replace("- ", " ").split()) == sorted(AREAS)


def test_no_second_index_is_mixed_in():
    paths = [*WORKFLOWS, *SCRIPTS, ROOT / "pyproject.toml", ROOT / "README.md"]
    assert [path.name for path in paths if re.search("(?i)extra.index.url", path.read_text())] == []


def test_locks_have_the_versions_of_the_constraints():
    def pins(path):
        found = re.findall(r"^([\w.-]+)==([^\s;\\]+)", path.read_text(), re.MULTILINE)
        return {re.sub(r"[._]", "-", name).lower(): version for name, version in found}

    tested = pins(ROOT / "constraints.txt")
    for lock in (ROOT / ".ci" / "locks").glob("*.txt"):
        locked = pins(lock)
        assert {name: tested.get(name) for name in locked} == locked, lock.name


def test_the_package_is_locked_with_what_it_needs():
    """All but torch, which comes from an index of its own."""
    locked = set(
        re.findall(r"^([\w-]+)==", (ROOT / ".ci/locks/package.txt").read_text(), re.MULTILINE)
    )
    text = (ROOT / "pyproject.toml").read_text()
    lists = re.findall(r"^(?:dependencies|all|test) = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
    needed = set(re.findall(r'"([\w-]+)(?:[>=\d.]*|;.*?)"', " ".join(lists)))
    assert len(lists) == 3
    assert {"numpy", "safetensors", "pandas", "pytest"} <= needed
    assert needed - {"torch", "tomli"} <= locked
