"""Cells that fail, are killed or stopped, or belong to another process; with the same stand-in."""

import fcntl
import os
import sys
import time
from functools import partial

import pytest
from train.reproduce.test_reproduce_runs import TWO
from train.reproduce.test_reproduce_runs import table as table

from ptd_ext.train.reproduce import command, workers
from ptd_ext.train.reproduce.grid import Cell


def test_a_failing_cell_is_told_and_the_others_run(table):
    code, output, journal = table.run(*TWO, CE_0="fail")
    assert code == 1
    assert journal == ["started CE/0", "started CE/1", "ended CE/1"]
    log = Cell("fashion_mnist", 50, "CE", 0).folder(table.out) / "log.txt"
    assert f"CE seed 0: failed, it ended with exit code 1. The end of {log}:\n" in output
    assert "    line 19\n    ValueError: this cannot be.\n" in output
    assert "line 10\n" not in output  # the last ten lines are enough
    assert (
        f"Not in the table: fashion_mnist 50 % CE seed 0, it ended with exit code 1; see {log}."
        in (output)
    )
    assert "**71.00** (51.42 ± 0.66)" in output
    code, output, journal = table.run(*TWO)
    assert (code, journal) == (0, ["started CE/0", "ended CE/0"])


def test_the_log_of_an_earlier_failure_is_not_shown_again(table):
    table.run(*TWO, CE_0="fail")
    _, output, _ = table.run(*TWO, CE_0="no result")
    assert "line 19" not in output
    assert "    (nothing was written)\n" in output


def test_success_without_a_result_is_a_failure(table):
    code, output, _ = table.run(*TWO, CE_0="no result")
    assert code == 1
    assert "CE seed 0: failed, " in output
    assert "result.json was not written. The end of" in output


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"test_accuracy": null}', "has no test accuracy"),
        ('{"test_accuracy": NaN}', "has no test accuracy"),
        ("{", "is damaged, it is not JSON (Expecting property name"),
        ("[" * 100_000, "is damaged, it is not JSON (maximum recursion depth"),
    ],
)
def test_a_broken_result_is_left_out_of_the_table(table, text, problem):
    table.run(*TWO)
    path = Cell("fashion_mnist", 50, "CE", 0).folder(table.out) / "result.json"
    path.write_text(text)
    _, output, _ = table.run("--report-only")
    first = output.splitlines()[0]
    assert first.startswith(f"{path} {problem}")
    assert first.endswith("; left out.")
    assert "**71.00** (51.42 ± 0.66)" in output


def test_a_killed_cell_resumes(table):
    code, output, journal = table.run(*TWO, CE_1="die")
    assert code == 1
    assert "CE seed 1: failed, it ended with exit code -9." in output
    code, output, journal = table.run(*TWO, CE_1="die")
    assert (code, journal) == (0, ["resumed CE/1", "ended CE/1"])


@pytest.mark.parametrize(("do", "code"), [("interrupt", 130), ("terminate", 143)])
def test_a_signal_stops_the_runs_and_the_same_command_goes_on(table, do, code):
    three = ("--rates", "50", "--methods", "CE", "--seeds", "3")
    fake = {"CE_0": "wait for the end of days", "CE_1": f"wait for started CE/0, {do}"}
    first, output, journal = table.run(*three, jobs=2, **fake)
    assert first == code
    assert sorted(journal) == [f"{e} CE/{n}" for e in ("started", "terminated") for n in (0, 1)]
    again = f"ptd-ext reproduce fashion_mnist {' '.join(three)} --out {table.out} --jobs 2"
    assert f"with the same command:\n  {again}\n" in output
    assert "Not in the table" not in output
    assert not (table.out / "table.md").exists()
    second, _, journal = table.run(*three)
    assert second == 0
    assert journal[::2] == ["resumed CE/0", "resumed CE/1", "started CE/2"]


def test_a_second_signal_kills_at_once(table):
    # The stand-in sends the second one when it gets SIGTERM, which it then ignores.
    start = time.monotonic()
    code, output, journal = table.run(*TWO, CE_0="interrupt, stubborn, impatient")
    assert time.monotonic() - start < 30  # it would have had a minute
    assert code == 130
    assert journal == ["started CE/0", "ignored CE/0"]
    assert "CE seed 0: had to be killed\n" in output


def test_a_run_that_does_not_stop_is_killed(table, monkeypatch):
    monkeypatch.setattr(command, "Workers", partial(workers.Workers, grace=0.2))
    code, output, journal = table.run(*TWO, CE_0="interrupt, stubborn")
    assert code == 130
    assert journal == ["started CE/0", "ignored CE/0"]
    assert "CE seed 0: had to be killed\n" in output


def test_a_run_that_something_else_stopped_can_be_resumed(table, monkeypatch):
    stopped = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    with monkeypatch.context() as patch:
        patch.setattr(workers, "TRAIN", [sys.executable, "-c", stopped])
        code, output, _ = table.run("--rates", "50", "--methods", "CE", "--seeds", "1")
    assert code == 1
    assert "CE seed 0: stopped by a signal; it can be resumed\n" in output
    assert "Not in the table: fashion_mnist 50 % CE seed 0, it was stopped;" in output


def test_a_cell_that_another_process_runs_is_left_alone(table):
    folder = Cell("fashion_mnist", 50, "CE", 0).folder(table.out)
    folder.mkdir(parents=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_SH)  # even this one keeps out who wants it for itself
    code, output, journal = table.run(*TWO)
    assert (code, journal) == (1, ["started CE/1", "ended CE/1"])
    assert "CE seed 0: another process is running it; left alone\n" in output
    os.close(lock)
    code, _, journal = table.run(*TWO)
    assert (code, journal) == (0, ["started CE/0", "ended CE/0"])
