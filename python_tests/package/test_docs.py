"""The documentation names what there is, and the README stays short."""

import importlib
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PUBLIC = ["data", "engine", "label_issues", "noise", "ops", "plot", "transition"]

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages are not part of the wheel")


def resolve(path):
    """The object behind a dotted path of Python."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        parent, name = path.rsplit(".", 1)
        return getattr(resolve(parent), name)


@pytest.mark.parametrize("module", ["", *PUBLIC])
def test_every_public_name_is_on_an_api_page(module):
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = [resolve(path) for path in re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE)]
    module = importlib.import_module(f"ptd_ext.{module}".rstrip("."))
    # The page of a module shows whatever it defines.
    names = [] if module in shown else getattr(module, "__all__", [])
    assert [name for name in names if not any(getattr(module, name) is it for it in shown)] == []


def test_cross_references_of_api_pages_lead_somewhere():
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE)
    lost = []
    for path in shown:
        item = resolve(path)
        members = vars(item).items() if isinstance(item, type) else ()
        documented = [item, *(each for name, each in members if not name.startswith("_"))]
        texts = "".join(each.__doc__ or "" for each in documented)
        for target in re.findall(r":\w+:`(ptd_ext\.[\w.]+)`", texts):
            if not any(f"{target}.".startswith(f"{each}.") for each in shown):
                lost.append((path, target))
    assert lost == []


def test_included_scripts_exist():
    """A line that a formatter has changed is shown as it stands instead of the script."""
    pages = "".join(page.read_text() for page in DOCS.rglob("*.md"))
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


@pytest.mark.parametrize(
    "page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS))
)
def test_links_and_pictures_of_pages_exist(page):
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    lost = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert lost == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md"])
def test_files_that_a_page_names_exist(page):
    """Full paths, paths below ptd_ext/ and python_tests/, or the names of files there."""
    named = set(re.findall(r"[\w/.]+\.(?:py|csv|toml|md)\b", (ROOT / page).read_text()))
    known = {path.name for path in (ROOT / "python_tests").rglob("*.py")}
    roots = [ROOT, ROOT / "ptd_ext", ROOT / "python_tests"]
    examples = {"python_tests/a/b/test_c.py", "ptd_ext/a/b/c.py", "_fake.py"}
    examples |= {"labels.csv", "settings.toml"}
    lost = {
        name for name in named - examples - known if not any((r / name).exists() for r in roots)
    }
    assert lost == set()


def test_the_speed_in_the_readme_is_that_of_its_snippet():
    """Rows of the benchmark with parts as the estimators return them, not of a copied layout."""
    hooks = runpy.run_path(str(DOCS / "hooks.py"))
    table = re.findall(
        r"^\| (\d+), (\d+), (\d+) \| (\w+) \| (.*?) \| (.*?) \|",
        (ROOT / "README.md").read_text(),
        re.MULTILINE,
    )
    assert len(table) > 3
    names = ("samples", "classes", "parts", "slack")
    for *size, ours, best in table:
        times = {
            row["contestant"]: float(row["median_us"])
            for row in hooks["rows"]("transition_loss_cpu.csv")
            if [row[name] for name in names] == size and row["parts_kind"] == "projected"
        }
        fastest = min(times[name] for name in hooks["TORCH_VERSIONS"] if name in times)
        assert microseconds(ours) == pytest.approx(times["ptd_ext"], rel=0.02)
        assert microseconds(best) == pytest.approx(fastest, rel=0.04)  # two digits
        assert "ptd_ext_plain_parts" in times


def microseconds(text):
    number, unit = text.split()
    return float(number) * {"µs": 1, "ms": 1000}[unit]
