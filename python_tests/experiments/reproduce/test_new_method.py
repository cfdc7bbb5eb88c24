"""A method that is only an entry of the registry: listing, help, tables and plots include it."""

import sys

import pytest

from ptd_ext.cli import main
from ptd_ext.engine.methods.registry import METHODS, Method
from ptd_ext.engine.methods.transition import CrossEntropy
from ptd_ext.experiments.reproduce import pool

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

# The eighth method without a transition matrix.
REGISTER = """
import sys
from ptd_ext.cli import main
from ptd_ext.engine.methods.registry import METHODS, Method
from ptd_ext.engine.methods.transition import CrossEntropy
METHODS["Dummy"] = Method(lambda s: [CrossEntropy(s)], published=False)
main(["train", *sys.argv[1:]])
"""


@pytest.fixture
def dummy(monkeypatch):
    monkeypatch.setitem(METHODS, "Dummy", Method(lambda s: [CrossEntropy(s)], published=False))
    monkeypatch.setattr(pool, "TRAIN", [sys.executable, "-c", REGISTER])


def test_a_new_method_is_listed(dummy, capsys):
    main(["train", "--list"])
    assert "Dummy" in capsys.readouterr().out.split()


def test_a_new_method_is_in_the_help(dummy, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "--help"])
    assert "PTD-L-V, Dummy" in " ".join(capsys.readouterr().out.split())


def test_a_new_method_is_in_the_table_and_the_plot(dummy, capsys, tmp_path):
    grid = ["--rates", "20", "40", "--seeds", "1", "--methods", "Dummy", "--jobs", "2"]
    tiny = ["--epochs", "1", "--data-limit", "100", "--device", "cpu"]
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "digits", *grid, *tiny, "--out", str(tmp_path / "table")])
    assert "| Dummy †                |" in capsys.readouterr().out
    assert (tmp_path / "table" / "table.png").read_bytes().startswith(b"\x89PNG")
