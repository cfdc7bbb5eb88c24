"""Cells that run side by side, wait, fail, are stopped or belong to another process."""

import fcntl
import os
import sys
import time
from functools import partial

import pytest
from experiments.reproduce.reproduce_cases import TWO
from experiments.reproduce.reproduce_cases import table as table

from ptd_ext.cli import reproduce as command
from ptd_ext.experiments.reproduce import pool
from ptd_ext.experiments.reproduce.grid import Cell


def test_a_run_gets_its_configuration_threads_and_lock(table):
    table.run(*TWO, "--threads", "3", "--epochs", "7")
    folder = Cell("fashion_mnist", 50, "CE", 1).folder(table.out)
    result = table.result("fashion_mnist", 50, "CE", 1)
    config = folder / "cell.toml"
    arguments = ["--config", str(config), "--out", str(folder), "--resume", "--no-progress"]
    arguments.append("--no-report")
    assert result["arguments"] == arguments
    assert result["threads"] == "3"
    assert result["holds_lock"]
    assert result["session"]  # Ctrl-C at the terminal is not for it
    lines = config.read_text().splitlines()
    assert {"rate = 0.5", "seed = 1", "epochs = 7", 'method = "CE"'} <= set(lines)
    assert f'warm_up_cache = "{table.out}/warm_up"' in lines


def test_runs_are_parallel(table):
    # Each waits until the other has started; one after the other they would wait in vain.
    code, _, journal = table.run(
        *TWO, jobs=2, CE_0="wait for started CE/1", CE_1="wait for started CE/0"
    )
    assert code == 0
    assert sorted(journal[:2]) == ["started CE/0", "started CE/1"]


def test_the_warm_up_of_a_group_is_made_by_one_run(table):
    methods = ("--methods", "CE", "Forward", "PTD-F", "PTD-R", "--rates", "50", "--seeds", "1")
    fake = {"PTD__F_0": "linger", "CE_0": "wait for started PTD-F/0"}
    code, _, journal = table.run(*methods, jobs=4, **fake)
    assert code == 0
    opened = journal.index("ended PTD-F/0")
    assert set(journal[:opened]) == {"started PTD-F/0", "started CE/0", "ended CE/0"}
    assert {"started Forward/0", "started PTD-R/0"} <= set(journal[opened:])


def test_gpus_are_shared_out(table, monkeypatch):
    monkeypatch.setattr(command.parsing, "_gpus", lambda device: ["4", "6"])
    table.run(*TWO, jobs=2, CE_0="wait for started CE/1", CE_1="wait for started CE/0")
    gpus = {table.result("fashion_mnist", 50, "CE", seed)["gpu"] for seed in (0, 1)}
    assert gpus == {"4", "6"}


def test_a_failing_cell_is_reported_and_the_others_run(table):
    code, output, journal = table.run(*TWO, CE_0="fail")
    assert code == 1
    assert journal == ["started CE/0", "started CE/1", "ended CE/1"]
    log = Cell("fashion_mnist", 50, "CE", 0).folder(table.out) / "log.txt"
    assert f"CE seed 0: failed, exit code 1. Last lines of {log}:\n" in output
    assert "    line 19\n    ValueError: this cannot be.\n" in output
    assert "line 10\n" not in output  # the last ten lines are enough
    assert f"Not in the table: fashion_mnist 50 % CE seed 0, exit code 1; see {log}." in (output)
    assert "**71.00** (51.42 ± 0.66)" in output
    code, output, journal = table.run(*TWO)
    assert (code, journal) == (0, ["started CE/0", "ended CE/0"])


def test_the_log_of_an_earlier_failure_is_not_shown_again(table):
    table.run(*TWO, CE_0="fail")
    _, output, _ = table.run(*TWO, CE_0="no result")
    assert "line 19" not in output
    assert "    (the log is empty)\n" in output


def test_success_without_a_result_is_a_failure(table):
    code, output, _ = table.run(*TWO, CE_0="no result")
    assert code == 1
    assert "CE seed 0: failed, " in output
    assert "result.json was not written. Last lines of" in output


def test_a_killed_cell_resumes(table):
    code, output, journal = table.run(*TWO, CE_1="die")
    assert code == 1
    assert "CE seed 1: failed, exit code -9." in output
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
    assert f"the same command continues the others from their checkpoints:\n  {again}\n" in output
    assert output.count("Stopping; running cells are writing their checkpoints …\n") == 1
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
    assert "CE seed 0: killed, because it did not stop\n" in output


def test_a_run_that_does_not_stop_is_killed(table, monkeypatch):
    monkeypatch.setattr(command, "Pool", partial(pool.Pool, grace=0.2))
    code, output, journal = table.run(*TWO, CE_0="interrupt, stubborn")
    assert code == 130
    assert journal == ["started CE/0", "ignored CE/0"]
    assert "CE seed 0: killed, because it did not stop\n" in output


def test_a_run_that_something_else_stopped_can_be_resumed(table, monkeypatch):
    stopped = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    with monkeypatch.context() as patch:
        patch.setattr(pool, "TRAIN", [sys.executable, "-c", stopped])
        code, output, _ = table.run("--rates", "50", "--methods", "CE", "--seeds", "1")
    assert code == 1
    assert "CE seed 0: stopped by a signal; it can be resumed\n" in output
    assert "Not in the table: fashion_mnist 50 % CE seed 0, stopped by a signal;" in output


def test_a_cell_that_another_process_runs_is_left_alone(table):
    folder = Cell("fashion_mnist", 50, "CE", 0).folder(table.out)
    folder.mkdir(parents=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_SH)  # even this one keeps out who wants it for itself
    code, output, journal = table.run(*TWO)
    assert (code, journal) == (1, ["started CE/1", "ended CE/1"])
    assert "CE seed 0: skipped, another process is running it\n" in output
    os.close(lock)
    code, _, journal = table.run(*TWO)
    assert (code, journal) == (0, ["started CE/0", "ended CE/0"])


REST = ("Forward", "T-Revision")


def test_after_a_failure_the_next_cell_of_the_group_makes_the_warm_up(table):
    methods = ("--methods", "Forward", "PTD-F", "PTD-R", "T-Revision", "--rates", "50")
    fake = {"PTD__F_0": "fail", "PTD__R_0": "linger"}
    code, _, journal = table.run(*methods, "--seeds", "1", jobs=4, **fake)
    assert code == 1
    assert journal[:3] == ["started PTD-F/0", "started PTD-R/0", "ended PTD-R/0"]
    assert set(journal[3:]) == {f"{e} {m}/0" for e in ("started", "ended") for m in REST}


def test_the_group_of_a_held_cell_runs_once_the_others_have_ended(table):
    folder = Cell("fashion_mnist", 50, "PTD-F", 0).folder(table.out)
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        methods = ("--methods", "CE", "Forward", "PTD-F", "--rates", "50", "--seeds", "1")
        code, output, journal = table.run(*methods, jobs=2, CE_0="linger")
    assert code == 1
    assert journal == ["started CE/0", "ended CE/0", "started Forward/0", "ended Forward/0"]
    assert output.count("PTD-F seed 0: skipped, another process is running it\n") == 1
