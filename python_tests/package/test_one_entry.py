"""Each thing of a registry is one entry: nothing else needs to be changed for it.

A copy of the package gets a dummy of each kind, one entry each. Listing, help, training, reproduce
with its plot and the tables of the docs must then know all of them.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ptd_ext

HOOKS = Path(__file__).parents[2] / "docs" / "hooks.py"
TINY = ["--epochs", "1", "--data-limit", "120", "--device", "cpu", "--rate", "0.2"]

# By the file of each registry, what is appended to it.
ENTRIES = {
    "engine/methods/registry.py": """
METHODS["Dummy"] = Method(
    lambda s: [WarmUp(s), TrainWithEstimator(s, "forward", "shoe rule")],
    help="a method for shoes", kind="one matrix", published=False,
)
""",
    "engine/networks/registry.py": """
NETWORKS["shoe_net"] = Network(lambda n, inputs, _: Linear(n, inputs), "anything", "shoe network")
""",
    "experiments/datasets/registry.py": """
DATA_SETS["shoes"] = DataSetEntry(
    lambda root, seed, text_length=0: load_digits(seed), "shoes by size", ("text_length",),
    settings={"network": "shoe_net", "count_base": "uniform"}, table_size=120, modules=("sklearn",),
)
""",
    "noise/kinds.py": """
KINDS["worn"] = NoiseKind(symmetric_noise, "any other shoe")
""",
}
# Two registries are read where they are made: an entry of the estimators and a field of the
# settings, each before the line that follows it.
ESTIMATOR = """    Estimator(
        "shoe rule",
        "class_transition",
        ("pred_probs",),
        "one matrix for shoes",
        lambda pred_probs: print("the shoe rule") or _from_anchors(pred_probs),
    ),
)
ESTIMATORS = """
SETTING = """
    shoe_size: int = _run(38, "size of a shoe", minimum=30, maximum=50)

    def __post_init__"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The folder of a copy of the package with a dummy of each kind."""
    root, source = tmp_path_factory.mktemp("package"), Path(ptd_ext.__file__).parent
    for path in source.rglob("*.py"):
        copy = root / "ptd_ext" / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(source).as_posix()
        if name == "transition/estimators.py":
            assert text.count(")\nESTIMATORS = ") == 1
            text = text.replace(")\nESTIMATORS = ", ESTIMATOR)
        if name == "engine/settings/settings.py":
            assert text.count("\n    def __post_init__") == 1
            text = text.replace("\n    def __post_init__", SETTING)
        copy.write_text(text + ENTRIES.get(name, ""), encoding="utf-8")
    for path in source.rglob("*"):
        if path.is_file() and path.suffix not in (".py", ".pyc", ".so", ".pyd"):
            copied = root / "ptd_ext" / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
    compiled = Path(ptd_ext._C.__file__).parent
    for path in compiled.glob("*.so"):
        (root / "ptd_ext" / path.name).symlink_to(path)
    # The finder of an installation in place would come before PYTHONPATH.
    (root / "sitecustomize.py").write_text(
        "import sys\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in type(f).__module__]\n",
        encoding="utf-8",
    )
    return root


def run(package, *arguments):
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        env={**os.environ, "PYTHONPATH": str(package), "COLUMNS": "200"},
        cwd=package,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(package, *arguments):
    return run(package, "-m", "ptd_ext", *arguments)


def words(text):
    return " ".join(text.split())


def test_the_copy_is_what_runs(package):
    found = run(package, "-c", "import ptd_ext; print(ptd_ext.__file__)").split()[-1]
    assert Path(found) == package / "ptd_ext" / "__init__.py"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "--list"], ["Dummy a method for shoes"]),
        (
            ["train", "--help-all"],
            ["shoe_net", "shoes", "worn", "shoe rule", "--shoe-size INT size of a shoe"],
        ),
        (["reproduce", "--help-all"], ["Dummy", "shoes", "--shoe-size"]),
        (["info"], ["shoes", "shoe_net", "worn", "shoe rule (needs pred_probs)"]),
    ],
)
def test_listing_and_help(package, arguments, expected):
    shown = words(command(package, *arguments))
    assert [each for each in expected if each not in shown] == []


@pytest.mark.slow
def test_training(package):
    pytest.importorskip("sklearn")
    which = ["--dataset", "shoes", "--noise", "worn", "--method", "Dummy", "--text-length", "5"]
    printed = command(
        package, "train", *TINY, *which, "--shoe-size", "44", "--out", str(package / "run")
    )
    assert "the shoe rule" in printed
    result = json.loads((package / "run" / "result.json").read_text(encoding="utf-8"))
    assert (result["method"], result["network"]) == ("Dummy", "shoe_net")
    settings = (package / "run" / "settings.toml").read_text(encoding="utf-8")
    for line in ('dataset = "shoes"', 'noise = "worn"', "shoe_size = 44", 'count_base = "uniform"'):
        assert f"{line}\n" in settings


def test_a_choice_of_an_estimator_by_a_setting(package):
    pytest.importorskip("sklearn")
    which = ["--dataset", "shoes", "--noise", "none", "--method", "EM-F"]
    count = ["--count-base", "shoe rule", "--out", str(package / "counts")]
    assert "the shoe rule" in command(package, "train", *TINY, *which, *count)


def test_bounds(package):
    with pytest.raises(AssertionError, match="shoe_size must be between 30 and 50; got 51"):
        command(package, "train", "--dataset", "shoes", "--shoe-size", "51")
    with pytest.raises(AssertionError, match="text_length does not apply to digits"):
        command(package, "train", "--dataset", "digits", "--text-length", "5")


@pytest.mark.slow
def test_reproduce(package):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    out = package / "table"
    grid = ["--rates", "20", "40", "--seeds", "1", "--methods", "Dummy", "--noise", "worn"]
    tiny = [option for option in TINY if option not in ("--rate", "0.2")]
    shown = command(package, "reproduce", "shoes", *grid, *tiny, "--out", str(out))
    assert "| Dummy †" in shown
    assert (out / "table.png").read_bytes().startswith(b"\x89PNG")
    assert "Dummy" in (out / "table.csv").read_text(encoding="utf-8")


def test_docs(package):
    if not HOOKS.is_file():
        pytest.skip("the pages are not part of the wheel")
    script = f"import sys; sys.path.append({str(HOOKS.parent)!r}); import hooks\n"
    shown = run(package, "-c", script + "for each in hooks.TABLES.values(): print(each())")
    for row in (
        "| Dummy | a method for shoes. Not in the paper | one matrix |",
        "| `shoe_net` | shoe network | rows or images |",
        "| `shoes` | shoes by size | `--text-length` |",
        "| `worn` | any other shoe |",
        "| `class_transition` | one matrix for shoes | `pred_probs` |",
        "| `--shoe-size` | `38` | size of a shoe (between 30 and 50) |",
    ):
        assert row in shown
