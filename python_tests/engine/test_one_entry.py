"""A method, a network or a setting is one entry: nothing else needs to be changed for it.

Listing, help, training and the tables of the docs are checked with a dummy of each kind.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ptd_ext
from ptd_ext.cli import main
from ptd_ext.engine.methods.registry import METHODS, Method
from ptd_ext.engine.methods.transition import CrossEntropy
from ptd_ext.engine.networks import NETWORKS, Network
from ptd_ext.engine.networks.linear import Linear
from ptd_ext.experiments.run.trained_run import TrainedRun

HOOKS = Path(__file__).parents[2] / "docs" / "hooks.py"
TINY = ["--dataset", "digits", "--epochs", "1", "--data-limit", "100", "--device", "cpu"]
ENTRY = """
    shoe_size: int = _run(38, "size of a shoe", minimum=30, maximum=50)
"""


def tables(hooks=HOOKS):
    if not hooks.is_file():
        pytest.skip("the pages are not part of the wheel")
    spec = importlib.util.spec_from_file_location("hooks", hooks)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TABLES


def words(text):
    return " ".join(text.split())


class Dummy(Linear):
    """A linear network that counts how often it is called."""

    calls = 0

    def forward(self, x):
        Dummy.calls += 1
        return super().forward(x)


@pytest.fixture
def dummy(monkeypatch):
    method = Method(lambda s: [CrossEntropy(s, "dummy stage")], help="a method for shoes")
    network = Network(lambda n, inputs, _: Dummy(n, inputs), "anything", "a network for shoes")
    monkeypatch.setitem(METHODS, "Dummy", method)
    monkeypatch.setitem(NETWORKS, "dummy_net", network)
    monkeypatch.setattr(Dummy, "calls", 0)


def test_a_method_and_a_network_are_listed(dummy, capsys):
    main(["train", "--list"])
    assert re.search(r"^Dummy +a method for shoes$", capsys.readouterr().out, re.MULTILINE)
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--help"])
    assert "news_conv, dummy_net" in words(capsys.readouterr().out)


def test_a_method_and_a_network_train(dummy, tmp_path):
    pytest.importorskip("sklearn")
    out = tmp_path / "run"
    main(["train", *TINY, "--method", "Dummy", "--network", "dummy_net", "--out", str(out)])
    assert Dummy.calls > 0
    result = json.loads((out / "result.json").read_text())
    assert (result["method"], result["network"]) == ("Dummy", "dummy_net")
    assert json.loads((out / "metrics.jsonl").read_text())["stage"] == "dummy stage"
    assert TrainedRun.load(out).classes.tolist() == list(range(10))


def test_a_method_and_a_network_are_in_the_docs(dummy):
    assert "| Dummy | a method for shoes |  |" in tables()["methods"]()
    assert "| `dummy_net` | a network for shoes | rows or images |" in tables()["networks"]()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with one more field of its settings."""
    root = tmp_path_factory.mktemp("package")
    source = Path(ptd_ext.__file__).parent
    # Compiled modules need not be copied.
    for path in source.rglob("*"):
        copy = root / "ptd_ext" / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
        elif path.suffix in (".so", ".pyd"):
            copy.symlink_to(path)
        elif path.suffix != ".pyc":
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    file = root / "ptd_ext" / "engine" / "settings" / "settings.py"
    text = file.read_text()
    file.write_text(text.replace("\n    def __post_init__", f"{ENTRY}\n    def __post_init__", 1))
    return root


def run(package, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(package), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        env=environment,
        cwd=package,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_setting_is_one_field(package):
    pytest.importorskip("sklearn")
    train = ["-m", "ptd_ext", "train"]
    assert "--shoe-size INT" in run(package, *train, "--help").stdout
    wrong = run(package, *train, *TINY, "--shoe-size", "51")
    assert "shoe_size must be between 30 and 50; got 51." in wrong.stderr
    done = run(package, *train, *TINY, "--method", "CE", "--shoe-size", "44", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "shoe_size = 44\n" in (package / "run" / "settings.toml").read_text()


def test_a_setting_is_in_the_docs(package):
    if not HOOKS.is_file():
        pytest.skip("the pages are not part of the wheel")
    script = f"import sys; sys.path.append({str(HOOKS.parent)!r}); import hooks\n"
    done = run(package, "-c", script + "print(hooks.settings_tables())")
    assert "| `--shoe-size` | `38` | size of a shoe (between 30 and 50) |" in done.stdout
