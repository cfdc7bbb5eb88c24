"""Cells, their order, and the command line that names them."""

from pathlib import Path

import pytest

from ptd_ext.train.config.presets import resolve
from ptd_ext.train.methods.registry import METHODS
from ptd_ext.train.reproduce import options
from ptd_ext.train.reproduce.grid import Cell, accuracy_grid, differences
from ptd_ext.train.reproduce.scheduler import Queue
from ptd_ext.train.reproduce.time_left import Estimate


def parse(*argv):
    return options.parse(options.parser(), argv)


def error_of(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        parse(*argv)
    assert stop.value.code == 2
    return capsys.readouterr().err.split("error: ")[1].strip()


CELLS = {
    "fashion_mnist/50/PTD-R-V/3": Cell("fashion_mnist", 50, "PTD-R-V", 3),
    "mnist/12.5/Co-teaching+/0": Cell("mnist", 12.5, "Co-teaching+", 0),
    "clothing1m/real/CE/0": Cell("clothing1m", None, "CE", 0),
    "cifar10/50/PTD-F/parts-12/4": Cell("cifar10", 50, "PTD-F", 4, 12),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_and_its_folder_name_each_other(name):
    assert CELLS[name].folder(Path("/t")) == Path("/t") / name
    assert Cell.of_folder(Path("/t") / name) == CELLS[name]


def test_a_cell_tells_the_run_what_it_is():
    config = Cell("mnist", 30, "PTD-F", 2, 12).config({"epochs": 3, "parts": 7})
    expected = {"dataset": "mnist", "rate": 0.3, "method": "PTD-F", "seed": 2, "parts": 12}
    assert config == {"epochs": 3, **expected}
    assert Cell("clothing1m", None, "CE", 0).config({}) == {
        "dataset": "clothing1m",
        "noise": "none",
        "method": "CE",
        "seed": 0,
    }


def test_a_given_number_of_parts_is_for_methods_that_have_parts():
    shared = {"parts": 20}
    assert Cell("mnist", 30, "PTD-R", 0).config(shared)["parts"] == 20
    assert "parts" not in Cell("mnist", 30, "Forward-band", 0).config(shared)
    assert shared == {"parts": 20}


def test_settings_differ_if_they_change_what_is_computed():
    before = {"epochs": 5, "milestones": (3, 4), "threads": 1, "data": "/a", "lr": 0.1}
    now = {"epochs": 6, "milestones": [3, 4], "threads": 2, "data": "/b", "ridge": 0.5}
    assert differences(before, now) == [
        "epochs = 5 (now 6)",
        "lr = 0.1 (now its default)",
        "ridge = its default (now 0.5)",
    ]
    assert differences(before, dict(before)) == []


def drain(queue, workers):
    """Run a queue with cells that all take equally long; yields what runs side by side."""
    running = []
    while True:
        while len(running) < workers and (cell := queue.take()):
            running.append(cell)
        if not running:
            return
        yield list(running)
        queue.finish(running.pop(0), succeeded=True)


def test_nobody_makes_a_warm_up_that_another_is_making():
    cells = accuracy_grid("mnist", [40, 50], list(METHODS), [0, 1])
    opened, seen = set(), set()
    for running in drain(Queue(cells), 5):
        seen |= set(running)
        for group in {cell.group for cell in cells} - opened:
            warm = [c for c in running if c.group == group and c.entry.warms_up]
            assert len(warm) <= 1
        opened |= {running[0].group} if running[0].entry.warms_up else set()
    assert seen == set(cells)


def test_once_a_warm_up_is_there_its_group_runs_in_parallel():
    cells = accuracy_grid("mnist", [50], ["Forward", "PTD-F", "PTD-R"], [0])
    queue = Queue(cells)
    first = queue.take()
    assert queue.take() is None
    queue.finish(first, succeeded=True)
    assert queue.take() is not None
    assert queue.take() is not None
    assert not queue.waiting


def test_a_warm_up_of_an_earlier_call_is_not_waited_for():
    done, *rest = accuracy_grid("mnist", [50], ["Forward", "PTD-F", "PTD-R"], [0])
    queue = Queue(rest, [done])
    assert {queue.take(), queue.take()} == set(rest)


def test_a_finished_run_without_warm_up_opens_nothing():
    rest = accuracy_grid("mnist", [50], ["PTD-F", "PTD-R"], [0])
    queue = Queue(rest, accuracy_grid("mnist", [50], ["CE"], [0]))
    assert queue.take() is not None
    assert queue.take() is None


def test_after_a_failure_the_next_of_the_group_makes_the_warm_up():
    queue = Queue(accuracy_grid("mnist", [50], ["Forward", "PTD-F", "PTD-R"], [0]))
    queue.finish(queue.take(), succeeded=False)
    assert queue.take() is not None
    assert queue.take() is None


def test_openers_come_first_then_the_longest():
    methods = ["CE", "Joint", "Forward", "PTD-R-V", "Decoupling"]
    order = [
        (c.method, c.seed) for c in Queue(accuracy_grid("mnist", [50], methods, [0, 1])).waiting
    ]
    assert order[:4] == [("PTD-R-V", 0), ("PTD-R-V", 1), ("Joint", 0), ("Joint", 1)]
    assert order[4:] == [(m, s) for m in ("Decoupling", "Forward", "CE") for s in (0, 1)]


def test_time_left_from_runs_of_the_method_or_by_cost():
    ce, joint, decoupling = (Cell("mnist", 50, m, 0) for m in ("CE", "Joint", "Decoupling"))
    estimate = Estimate()
    estimate.learn(joint, None)
    assert estimate.left([ce], {}, 1) is None
    estimate.learn(ce, 100)
    assert estimate.left([ce, joint], {}, 1) == pytest.approx(100 + 320)
    estimate.learn(joint, 200)
    assert estimate.left([ce, joint], {}, 1) == pytest.approx(100 + 200)
    assert estimate.left([decoupling], {}, 1) == pytest.approx(2 * 300 / 4.2)
    assert estimate.left([ce] * 4, {joint: 150}, 3) == pytest.approx(450 / 3)
    assert estimate.left([joint], {}, 8) == pytest.approx(200)  # one run is not shared out
    assert estimate.left([], {ce: 500}, 1) == 0


def test_the_whole_table_by_default():
    asked = options.cells(parse("fashion_mnist"))
    assert len(asked) == len(set(asked)) == 21 * 5 * 5
    assert {cell.rate for cell in asked} == {10, 20, 30, 40, 50}
    assert {cell.seed for cell in asked} == set(range(5))


def test_the_ablation_runs_methods_of_one_matrix_once():
    asked = options.cells(parse("ablation", "--parts", "10-12", "20", "--seeds", "2"))
    assert {cell.parts for cell in asked if cell.method == "PTD-F"} == {10, 11, 12, 20}
    assert len(asked) == 2 * (4 * 4 + 3)
    assert [c for c in asked if c.method == "Forward-band"] == [
        Cell("cifar10", 50, "Forward-band", 0),
        Cell("cifar10", 50, "Forward-band", 1),
    ]


@pytest.mark.parametrize(
    ("given", "seeds"),
    [(["3"], [0, 1, 2]), (["0", "7"], [0, 7]), (["5-7"], [5, 6, 7]), (["7-7"], [7])],
)
def test_seeds_are_a_number_or_a_list(given, seeds):
    assert parse("mnist", "--seeds", *given).seeds == seeds


def test_settings_have_their_types():
    values = ["epochs=3", "lr=1", "milestones=2,4", "compile=default", "channels_last=False"]
    shared = options.shared(parse("mnist", "--set", *values, "--out", "/t", "--data", "/d"))
    assert shared == {
        "preset": "fast",
        "threads": 1,
        "epochs": 3,
        "lr": 1.0,
        "milestones": [2, 4],
        "compile": "default",
        "channels_last": False,
        "warm_up_cache": "/t/warm_up",
        "data": "/d",
    }
    assert type(shared["lr"]) is float


def test_jobs_share_the_cores(monkeypatch):
    monkeypatch.setattr(options.os, "sched_getaffinity", lambda _: set(range(10)))
    monkeypatch.setattr(options, "_gpus", lambda _: [])
    assert parse("mnist").jobs == 10
    assert parse("mnist", "--threads-per-job", "4").jobs == 2
    assert parse("mnist", "--threads-per-job", "64").jobs == 1
    assert parse("mnist", "--jobs", "3").jobs == 3


def test_gpus_get_a_job_each(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    asked = parse("mnist")
    assert (asked.jobs, asked.gpus) == (3, ["0", "1", "2"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    assert parse("mnist").gpus == ["4", "6"]
    assert parse("mnist", "--set", "device=cpu").gpus == []


ERRORS = {
    ("mnist", "--rates", "0.5"): "--rates are in per cent: say 50 for 0.5.",
    ("mnist", "--rates", "100"): "--rates are in per cent, from 0 to less than 100; got 100.",
    ("clothing1m", "--rates", "50"): "clothing1m has noise of its own: leave --rates out.",
    ("mnist", "--seeds", "x"): "--seeds takes numbers, or ranges such as 5-9; got 'x'.",
    ("mnist", "--seeds", "0"): "--seeds must be at least 1 seed.",
    ("mnist", "--seeds", "9-5"): "--seeds 9-5 has no number in it.",
    ("mnist", "--jobs", "0"): "--jobs must be at least 1; got 0.",
    ("mnist", "--threads-per-job", "0"): "--threads-per-job must be at least 1; got 0.",
    ("mnist", "--set", "epochs"): "--set takes NAME=VALUE; got 'epochs'.",
    ("mnist", "--set", "epoch=3"): "--set epoch=3: `ptd-ext train` has no setting 'epoch'.",
    ("mnist", "--set", "epochs=many"): "--set epochs=many: 'many' is no value for epochs.",
    ("mnist", "--set", "compile=x", "seed=3"): "--set seed=3: seed is for the table to choose; "
    "see --help.",
    ("mnist", "--set", "channels_last=2"): "--set channels_last=2: '2' is no value for "
    "channels_last.",
    ("mnist", "--parts", "3"): "--parts and --dataset belong to `ptd-ext reproduce ablation`; for "
    "another R in a table, say --set parts=R.",
    (
        "ablation",
        "--set",
        "parts=3",
    ): "--set parts=… would fix what an ablation varies; say --parts.",
    ("ablation", "--parts", "0"): "--parts must be at least 1.",
}


@pytest.mark.parametrize("argv", ERRORS, ids=" ".join)
def test_what_is_wrong_is_said_in_a_sentence(capsys, argv):
    assert error_of(capsys, *argv) == ERRORS[argv]


def test_unknown_methods_are_told_the_known_ones(capsys):
    assert error_of(capsys, "mnist", "--methods", "CE", "PTD").endswith("PTD-L-V; got 'PTD'.")
    assert "--methods must be of Forward, T-Rev" in error_of(capsys, "ablation", "--methods", "CE")


def test_help_teaches_with_examples(capsys):
    with pytest.raises(SystemExit) as stop:
        parse("--help")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: ptd-ext reproduce")
    for line in text.splitlines():
        if line.startswith("  ptd-ext reproduce"):
            parse(*line.split()[2:])
    assert text.count("  ptd-ext reproduce") == 6


def test_every_cell_of_every_table_is_one_that_the_driver_can_run():
    for table in ("mnist", "fashion_mnist", "svhn", "cifar10", "news", "clothing1m", "ablation"):
        for preset in ("fast", "paper"):
            asked = parse(table, "--preset", preset, "--seeds", "1")
            for cell in options.cells(asked):
                settings = resolve(cell.config(options.shared(asked)), {})
                assert settings.method == cell.method
                assert (settings.parts == 1) == METHODS[settings.method].one_matrix
