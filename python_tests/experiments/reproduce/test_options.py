"""The command line of `ptd-ext reproduce`, and the cells that it names."""

from dataclasses import replace

import pytest

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.experiments.datasets.registry import DATA_SETS
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.reproduce import options
from ptd_ext.experiments.reproduce.grid import Cell


def parse(*argv):
    return options.parse(options.parser(), argv)


def error_of(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        parse(*argv)
    assert stop.value.code == 2
    error = capsys.readouterr().err.removeprefix("ptd-ext reproduce: ")
    return error.partition(" See `ptd-ext reproduce --help`")[0]


def test_the_whole_table_by_default():
    asked = options.cells(parse("fashion_mnist"))
    assert len(asked) == len(set(asked)) == 21 * 5 * 5
    assert {cell.rate for cell in asked} == {10, 20, 30, 40, 50}
    assert {cell.seed for cell in asked} == set(range(5))


def test_the_ablation_runs_methods_of_one_matrix_once():
    asked = options.cells(parse("ablation", "--n-parts", "10-12", "20", "--seeds", "2"))
    assert {cell.n_parts for cell in asked if cell.method == "PTD-F"} == {10, 11, 12, 20}
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
    values = ["--epochs", "3", "--lr", "1", "--milestones", "2", "4", "--no-channels-last"]
    shared = options.shared(parse("mnist", *values, "--out", "/t", "--data", "/d"))
    assert shared == {
        "preset": "fast",
        "threads": 1,
        "epochs": 3,
        "lr": 1.0,
        "milestones": (2, 4),
        "channels_last": False,
        "warm_up_cache": "/t/warm_up",
        "data": "/d",
    }
    assert type(shared["lr"]) is float


def test_jobs_share_the_cores(monkeypatch):
    monkeypatch.setattr(options.os, "sched_getaffinity", lambda _: set(range(10)))
    monkeypatch.setattr(options, "_gpus", lambda _: [])
    assert parse("mnist").jobs == 10
    assert parse("mnist", "--threads", "4").jobs == 2
    assert parse("mnist", "--threads", "64").jobs == 1
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
    assert parse("mnist", "--device", "cpu").gpus == []


ERRORS = {
    ("mnist", "--rates", "0.5"): "--rates must be in per cent: 50 instead of 0.5.",
    ("mnist", "--rates", "100"): "--rates must be in per cent, from 0 to below 100; got 100.",
    ("clothing1m", "--rates", "50"): "--rates cannot be set for clothing1m, whose labels are "
    "noisy.",
    ("mnist", "--seeds", "x"): "--seeds must be numbers, or ranges such as 5-9; got 'x'.",
    ("mnist", "--seeds", "0"): "--seeds must be at least 1; got 0.",
    ("mnist", "--seeds", "9-5"): "--seeds must be ascending ranges, such as 5-9; got '9-5'.",
    ("mnist", "--jobs", "0"): "--jobs must be at least 1; got 0.",
    ("mnist", "--threads", "0"): "--threads must be at least 1; got 0.",
    ("mnist", "--n-parts", "3", "4"): "--n-parts must be one number; `ptd-ext reproduce ablation` "
    "compares several.",
    ("mnist", "--dataset", "svhn"): "--dataset applies to `ptd-ext reproduce ablation` only.",
    ("mnist", "--seed", "3"): "unrecognized arguments: --seed 3. Did you mean --seeds?",
    **{
        ("mnist", "--shard", wrong): "argument --shard: must be I/N with 1 ≤ I ≤ N, such as 2/8; "
        f"got '{wrong}'."
        for wrong in ("0/3", "4/3", "1", "1/", "1/3/5", "1/0")
    },
}


@pytest.mark.parametrize("argv", ERRORS, ids=" ".join)
def test_error_messages(capsys, argv):
    assert error_of(capsys, *argv) == ERRORS[argv]


def test_unknown_methods_are_told_the_known_ones(capsys):
    assert error_of(capsys, "mnist", "--methods", "CE", "PTD").endswith("PTD-L-V; got 'PTD'.")
    assert "--methods must be one of Forward, T-Rev" in error_of(
        capsys, "ablation", "--methods", "CE"
    )


def test_parts_fix_the_number_of_parts_of_a_table():
    assert options.shared(parse("mnist", "--n-parts", "7"))["n_parts"] == 7
    assert "n_parts" not in options.shared(parse("mnist"))
    assert "n_parts" not in options.shared(parse("ablation", "--n-parts", "7"))


def test_a_shard_is_a_part_of_the_table():
    shards = [options.cells(parse("mnist", "--shard", f"{i}/3")) for i in (1, 2, 3)]
    assert sum(map(len, shards)) == len(options.cells(parse("mnist"))) == 21 * 5 * 5
    assert len({*shards[0], *shards[1], *shards[2]}) == 21 * 5 * 5


def test_help_teaches_with_examples(capsys):
    with pytest.raises(SystemExit) as stop:
        parse("--help")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: ptd-ext reproduce")
    for line in text.splitlines():
        if line.startswith("  ptd-ext reproduce"):
            parse(*line.split()[2:])
    assert text.count("  ptd-ext reproduce") == 7


def test_every_cell_of_every_table_is_one_that_the_driver_can_run():
    for table in ("mnist", "fashion_mnist", "svhn", "cifar10", "news", "clothing1m", "ablation"):
        for preset in ("fast", "paper"):
            asked = parse(table, "--preset", preset, "--seeds", "1")
            for cell in options.cells(asked):
                settings = resolve(cell.config(options.shared(asked)), {})
                assert settings.method == cell.method
                assert (settings.n_parts == 1) == METHODS[settings.method].one_matrix


def test_a_new_data_set_has_a_table(monkeypatch, capsys):
    monkeypatch.setitem(DATA_SETS, "dummy", replace(DATA_SETS["digits"], own_noise=True))
    with pytest.raises(SystemExit, match="0"):
        parse("--help")
    assert "clothing1m, dummy, ablation" in " ".join(capsys.readouterr().out.split())
    assert {cell.rate for cell in options.cells(parse("dummy"))} == {None}
    assert parse("ablation", "--dataset", "dummy").data_name == "dummy"
    monkeypatch.setitem(DATA_SETS, "dummy", replace(DATA_SETS["digits"], table_size=0))
    assert "argument TABLE: invalid choice: 'dummy'" in error_of(capsys, "dummy")
