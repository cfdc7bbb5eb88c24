"""The tests lie in the tree of the package: a test file for every module, which imports it."""

import ast
import importlib
from pathlib import Path

import pytest

import ptd_ext
from ptd_ext.cli import COMMANDS

PACKAGE = Path(ptd_ext.__file__).parent
TESTS = Path(__file__).parents[1]
WITHOUT = {"__init__", "__main__"}
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.stem not in WITHOUT]


def mirrored(path: Path) -> Path:
    """python_tests/a/b/test_c.py for ptd_ext/a/b/_c.py."""
    return TESTS / path.relative_to(PACKAGE).with_name(f"test_{path.stem.lstrip('_')}.py")


def modules_of(test: Path) -> set[str]:
    """The modules that a test file imports, and those that define the names it imports."""
    found = set()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("ptd_ext."):
            found.add(ast.unparse(node))
    public = {name for name in found if name.startswith("ptd_ext.")}
    return found | {home for home in map(home_of, public) if home}


def home_of(name: str) -> str | None:
    """The module that defines a public name such as ptd_ext.find_anchors."""
    parent, attribute = name.rsplit(".", 1)
    try:
        return getattr(getattr(importlib.import_module(parent), attribute), "__module__", None)
    except (ImportError, AttributeError):
        return None


def complaint(path: Path) -> str | None:
    """Why a module has no test, or None."""
    name = ".".join(["ptd_ext", *path.relative_to(PACKAGE).with_suffix("").parts])
    test = mirrored(path)
    if not test.exists():
        return f"{name} has no test {test.relative_to(TESTS.parent)}"
    text = test.read_text(encoding="utf-8")
    commands = {module: command for command, (module, _) in COMMANDS.items()}
    runs = name in commands and f'"{commands[name]}"' in text
    if not runs and name not in modules_of(test) and name not in text:
        return f"{test.relative_to(TESTS.parent)} does not import {name}"
    return None


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_has_a_test(path):
    assert complaint(path) is None


def test_modules_import_from_where_a_name_is_defined():
    """The linter ignores imports of the package itself, for the sake of the compiled module."""
    imported = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "ptd_ext":
                imported.update(alias.name for alias in node.names)
    assert imported <= {"_C"}


def test_every_module_belongs_to_an_area_of_mutation_testing():
    from mutation.areas import AREAS

    root, lost = TESTS.parent, []
    for area in AREAS.values():
        lost += [test for test in area.tests + area.slow if not (root / test).exists()]
    assert lost == []
    patterns = [pattern for area in AREAS.values() for pattern in area.files]
    found = {path for pattern in patterns for path in PACKAGE.parent.glob(pattern)}
    assert [path for path in MODULES if path not in found and path.stem != "_load"] == []
