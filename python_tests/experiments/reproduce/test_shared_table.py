"""Two processes that fill one table, with a stand-in for `ptd-ext train`."""

import csv
import subprocess
import sys

import pytest
from experiments.reproduce.reproduce_cases import table as table

from ptd_ext.experiments.reproduce import pool

COMMAND = """
import sys
from ptd_ext.cli import reproduce
from ptd_ext.experiments.reproduce import pool
pool.TRAIN = [sys.executable, sys.argv[1]]
reproduce.main(sys.argv[2:])
"""
GRID = (
    *("fashion_mnist", "--rates", "40", "50", "--methods", "CE", "Forward", "PTD-F"),
    *("--seeds", "2", "--jobs", "1"),
)


def run_two(table, *parts):
    """Run two commands at once; returns their exit codes and outputs."""
    table.journal.write_text("")
    fake = pool.TRAIN[1]  # the stand-in of the fixture
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COMMAND, fake, *GRID, *part, "--out", str(table.out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for part in parts
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    return [process.returncode for process in processes], outputs


def rows(folder):
    with (folder / "table.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def whole(table, tmp_path):
    """The rows of the table that one process fills."""
    code, _, journal = table.run(*GRID[1:], out=tmp_path / "whole")
    assert code == 0
    assert len(journal) == 2 * 12
    return rows(tmp_path / "whole")


def test_two_shards_are_the_whole_table(table, whole):
    codes, outputs = run_two(table, ["--shard", "1/2"], ["--shard", "2/2"])
    assert codes == [0, 0], outputs
    events = table.journal.read_text().splitlines()
    assert len(events) == 2 * 12
    assert [f"6 cells of shard {index}/2" in outputs[index - 1] for index in (1, 2)] == [True] * 2
    # Whichever process finishes last writes the table of both.
    assert rows(table.out) == whole


def test_two_commands_without_shards_never_run_a_cell_at_once(table, whole, monkeypatch):
    monkeypatch.setenv("FAKE", '{"CE/0": "linger", "PTD-F/0": "linger", "PTD-F/1": "linger"}')
    codes, outputs = run_two(table, [], [])
    started = [e for e in table.journal.read_text().splitlines() if e.startswith("started")]
    assert len(started) == 12
    assert 0 in codes
    held = "skipped, another process is running it"
    assert [code == 1 for code in codes] == [held in output for output in outputs]
    assert rows(table.out) == whole
