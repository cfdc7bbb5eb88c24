"""The files of a table: which results they hold, and what they need."""

import fcntl
import sys
import threading

from experiments.reproduce.reproduce_cases import TWO
from experiments.reproduce.reproduce_cases import table as table

from ptd_ext.experiments.reproduce.grid import Cell
from ptd_ext.experiments.reproduce.report import report


def test_report_only_runs_nothing(table):
    code, output, journal = table.run("--report-only")
    assert (code, journal) == (1, [])
    assert f"There are no results in {table.out} yet.\n" in output
    table.run(*TWO)
    (table.out / "table.md").unlink()
    code, output, journal = table.run("--report-only")
    assert (code, journal) == (0, [])
    assert (table.out / "table.md").read_text(encoding="utf-8") in f"# Accuracy\n{output}"
    code, output, _ = table.run("--report-only", data="ablation")
    assert (code, output) == (1, f"There are no results of an ablation in {table.out} yet.\n")


def test_the_ablation_has_its_own_table_and_shares_runs_of_one_matrix(table):
    table.run("--rates", "50", "--methods", "Forward-band", "PTD-F", "--seeds", "1", data="cifar10")
    methods = ("--methods", "Forward-band", "PTD-F")
    code, output, journal = table.run(
        *methods, "--n-parts", "10", "12", "--seeds", "1", data="ablation"
    )
    assert (code, journal) == (0, ["started PTD-F/0", "ended PTD-F/0"] * 2)
    assert "| R = 10 | **0.500**      | **0.500** (0.840 ± 0.030) |" in output
    assert "| R = 12 | **70.00**      | **70.00** (47.01 ± 2.65) |" in output
    config = Cell("cifar10", 50, "PTD-F", 0, 12).folder(table.out) / "cell.toml"
    assert "n_parts = 12" in config.read_text().splitlines()
    assert (table.out / "ablation" / "table.csv").read_text().count("\n") == 1 + 3 + 3
    before = (table.out / "table.md").read_text(encoding="utf-8")
    table.run("--report-only", data="cifar10")
    assert (table.out / "table.md").read_text(encoding="utf-8") == before


def test_without_matplotlib_the_table_is_still_written(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, output, _ = table.run(*TWO)
    assert code == 0
    message = 'Drawing needs matplotlib: pip install "ptd_ext[all]"; table.png was left out.\n'
    assert message in output
    assert f"Written to {table.out}: table.md and table.csv.\n" in output
    assert not (table.out / "table.png").exists()


def test_the_table_waits_for_another_process_that_writes_it(table):
    table.run(*TWO)
    (table.out / "table.md").unlink()
    with (table.out / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        writer = threading.Thread(target=report, args=(table.out,))
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        assert not (table.out / "table.md").exists()
    writer.join(60)
    assert (table.out / "table.md").exists()
