"""`ptd-ext reproduce` from start to end, with a stand-in for `ptd-ext train`."""

import shutil

from experiments.reproduce.reproduce_cases import TWO
from experiments.reproduce.reproduce_cases import table as table

from ptd_ext.cli import reproduce as command
from ptd_ext.experiments.reproduce.grid import Cell


def test_a_table_is_run_and_written(table):
    code, output, journal = table.run(*TWO, "--threads", "3")
    assert code == 0
    assert journal == ["started CE/0", "ended CE/0", "started CE/1", "ended CE/1"]
    assert "2 cells, 0 of them done; 1 at a time" in output
    assert "[1/2] fashion_mnist 50 % CE seed 0: 70.00 % in 30 s; 1 left, about 30 s\n" in output
    assert "[2/2] fashion_mnist 50 % CE seed 1: 71.00 % in 30 s\n" in output
    assert "**70.50 ± 0.71** (51.42 ± 0.66)" in output
    assert "preset fast · network lenet5 · 60,000 training samples · ptd_ext 1.2.3" in output
    files = {path.name for path in table.out.glob("table.*")}
    assert {"table.md", "table.csv"} <= files <= {"table.md", "table.csv", "table.png"}
    assert (table.out / "table.csv").read_text().count("\n") == 1 + 2 + 1


def test_what_is_done_is_not_run_again_and_the_table_grows(table):
    table.run(*TWO)
    code, output, journal = table.run("--rates", "50", "--methods", "CE", "DMI", "--seeds", "2")
    assert code == 0
    assert journal == ["started DMI/0", "ended DMI/0", "started DMI/1", "ended DMI/1"]
    assert "4 cells, 2 of them done" in output
    code, output, journal = table.run("--rates", "40", "--methods", "CE", "--seeds", "1")
    assert "| method | 40 % " in output
    assert "70.00 ± 0.71" not in output.split("40 %")[0]
    assert len([line for line in output.splitlines() if line.startswith("| DMI")]) == 1


def test_other_settings_are_not_mixed_into_a_table(table):
    table.run(*TWO, "--epochs", "7")
    code, output, journal = table.run(*TWO, "--epochs", "8", "--lr", "0.5")
    assert (code, journal) == (2, [])
    folder = Cell("fashion_mnist", 50, "CE", 0).folder(table.out)
    assert output == (
        f"ptd-ext reproduce: {folder} was run with epochs = 7 (now 8), lr = its default (now 0.5). "
        "Cells that differ: 2. A table does not mix settings: give another --out, or delete the "
        "folders of these cells to run them again.\n"
    )
    code, _, journal = table.run(
        "--rates", "50", "--methods", "CE", "--seeds", "3", "--epochs", "7"
    )
    assert (code, journal) == (0, ["started CE/2", "ended CE/2"])


def test_a_table_that_was_moved_goes_on(table, tmp_path):
    table.run(*TWO, "--data", "/one", "--threads", "1")
    shutil.move(table.out, tmp_path / "moved")
    code, _, journal = table.run(*TWO, "--data", "/two", "--threads", "2", out=tmp_path / "moved")
    assert (code, journal) == (0, [])


def test_a_setting_that_is_invalid_is_reported_once(table):
    code, output, journal = table.run(*TWO, "--batch-size", "0")
    assert (code, journal) == (2, [])
    assert output.count("batch_size must be at least 1; got 0.") == 1
    assert not table.out.exists()


def test_without_scipy_nothing_is_begun(table, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    code, output, journal = table.run(*TWO)
    assert (code, journal) == (1, [])
    assert output == 'The significance test needs scipy: pip install "ptd_ext[all]".\n'
