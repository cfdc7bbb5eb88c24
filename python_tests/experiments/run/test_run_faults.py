"""Folders with damaged, foreign or outdated files: a message, and nothing silently wrong."""

import hashlib
import json
import random

import numpy as np
import pytest
import torch
from training_cases import CPU, flags, outcome, quick_settings, quick_values, write_clusters

from ptd_ext.cli import main
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.training import checkpoint, train_step
from ptd_ext.experiments.datasets import ImageFiles
from ptd_ext.experiments.datasets.problem import Problem
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.reproduce import options as parsing
from ptd_ext.experiments.reproduce import pool
from ptd_ext.experiments.reproduce.grid import Cell
from ptd_ext.experiments.run.experiment import train
from ptd_ext.experiments.toml import write_config


@pytest.fixture
def clusters(tmp_path):
    return write_clusters(tmp_path / "clusters.npz")


@pytest.fixture
def stopped(clusters, tmp_path, monkeypatch):
    """The settings and the folder of a run of three epochs that ended in its second."""
    settings = quick_settings(clusters, "CE")
    step, calls = train_step.TrainStep.step, []

    def ending(self, *arguments):
        calls.append(1)
        if len(calls) == 15:
            raise KeyboardInterrupt
        step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(train_step.TrainStep, "step", ending)
        with pytest.raises(KeyboardInterrupt):
            train(settings, tmp_path / "run", CPU)
    return settings, tmp_path / "run"


def change(path, name, position, value):
    """Overwrite one entry of an array in an .npz file with another value."""
    with np.load(path) as file:
        arrays = {key: file[key].copy() for key in file}
    assert arrays[name][position] != value
    arrays[name][position] = value
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [("x", (101, 3), 0.5), ("x_test", (57, 0), 0.5), ("y", 100, 2), ("y_test", 20, 1)],
)
def test_a_finished_run_is_not_returned_for_changed_data(clusters, tmp_path, name, position, value):
    settings = quick_settings(clusters, "CE")
    first = train(settings, tmp_path / "run", CPU)
    change(clusters, name, position, value)
    with pytest.raises(ValueError, match=r"result\.json is the result of a run on other data"):
        train(settings, tmp_path / "run", CPU, resume=True)
    write_clusters(clusters)
    assert train(settings, tmp_path / "run", CPU, resume=True) == first


def test_image_files_have_a_fingerprint(tmp_path):
    """A hash of names and contents; the folder itself may move."""
    image = pytest.importorskip("PIL.Image")
    names = [f"{number}.png" for number in range(5)]
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for number, name in enumerate(names):
            image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / folder / name)

    def fingerprint(folder, names=names):
        found = hashlib.sha256()
        plain = Preprocessing.for_images([3, 8, 8], None, None, as_bytes=True, files=True)
        inputs = Inputs(ImageFiles(tmp_path / folder, names, 8), None, plain)
        inputs.add_to(found)
        return found.hexdigest()

    first = fingerprint("one")
    assert first == fingerprint("two")
    assert first != fingerprint("one", names[::-1])
    image.new("RGB", (8, 8), (2, 0, 1)).save(tmp_path / "two" / "2.png")
    assert first != fingerprint("two")
    image.new("RGB", (9, 8), (3, 0, 0)).save(tmp_path / "one" / "3.png")
    assert first != fingerprint("one")


def test_resume_with_another_file_of_data(clusters, tmp_path, capsys):
    """The command ends with an error, and does not print the old accuracy."""
    others = write_clusters(tmp_path / "others.npz", samples=710)
    out = str(tmp_path / "run")
    main(["train", *flags(quick_values(clusters, "CE")), "--out", out])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["train", "--out", out, "--resume", "--data", str(others)])
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert "on other data" in printed.err
    assert "clean test accuracy" not in printed.out


def test_compare_does_not_mix_data(clusters, tmp_path, capsys):
    others = write_clusters(tmp_path / "others.npz", samples=710)
    values = quick_values(clusters, "CE")
    del values["method"]
    command = ["compare", "--methods", "CE", "--seeds", "1", "--out", str(tmp_path / "out")]
    main([*command, *flags(values)])
    with pytest.raises(SystemExit):
        main([*command, *flags({**values, "data": others})])
    assert "on other data" in capsys.readouterr().err


def test_a_table_does_not_mix_data(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    pytest.importorskip("scipy")
    options = ["--rates", "40", "--methods", "CE", "--seeds", "1", "--out", str(tmp_path)]
    command = ["reproduce", "digits", *options, "--epochs", "1", "--data-limit", "100"]
    cell = Cell("digits", 40.0, "CE", 0)
    chosen = parsing.parse(parsing.parser(), command[1:])
    config = cell.config(parsing.shared(chosen))
    cell.folder(tmp_path).mkdir(parents=True)
    write_config(config, cell.folder(tmp_path) / "cell.toml")
    train(resolve(config, {}), cell.folder(tmp_path), CPU, resume=True)
    monkeypatch.setattr(pool, "TRAIN", ["false"])
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 0
    assert "1 cells, 1 of them done" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(Problem, "fingerprint", lambda self: "other")
        with pytest.raises(SystemExit) as ended:
            main(command)
    assert ended.value.code == 2
    assert "on other data" in capsys.readouterr().err
    for text in ("{}", "[]"):
        (cell.folder(tmp_path) / "result.json").write_text(text)
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 1
        assert "1 cells, 0 of them done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "with a number test_accuracy; got None"),
        ("[]", "must hold the result of a run; got a list"),
        ("", "is damaged: it is not JSON"),
        ('{"test_accuracy": 12.0', "is damaged: it is not JSON"),
        ("[" * 100_000, "is damaged: it is not JSON"),
        (" " * 2**20 + "{}", "declares 1,048,578 bytes, more than the 1,048,576"),
        ('{"test_accuracy": NaN, "test_accuracy_last": 1}', "a number test_accuracy; got nan"),
        ('{"test_accuracy": 1, "test_accuracy_last": 1}', "an earlier version of ptd_ext"),
        (
            '{"test_accuracy": 1, "test_accuracy_last": 1, "sha256": {}}',
            "fingerprint was None",
        ),
    ],
)
def test_a_result_of_another_kind_gets_an_error_message(clusters, tmp_path, text, message):
    settings, out = quick_settings(clusters, "CE"), tmp_path / "run"
    train(settings, out, CPU)
    whole = outcome(out)
    (out / "result.json").write_text(text)
    with pytest.raises(ValueError, match=r"result\.json") as caught:
        train(settings, out, CPU, resume=True)
    assert message in str(caught.value)
    assert (out / "result.json").read_text() == text
    (out / "result.json").unlink()  # what the message advises
    train(settings, out, CPU, resume=True)
    assert outcome(out) == whole


def test_every_flipped_bit_of_a_checkpoint_is_seen(stopped):
    _, out = stopped
    path = out / "checkpoint.pt"
    whole = path.read_bytes()
    belongs_to = torch.load(path, weights_only=True)["belongs_to"]
    assert checkpoint.load(path, belongs_to)["epoch"] == 1
    chosen = random.Random(0)
    ends = [*range(40), *range(len(whole) - 100, len(whole))]
    for position in [*ends, *(chosen.randrange(len(whole)) for _ in range(200))]:
        flipped = bytearray(whole)
        flipped[position] ^= 1 << chosen.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"checkpoint\.pt is damaged"):
            checkpoint.load(path, belongs_to)
    path.write_bytes(whole)
    assert checkpoint.load(path, belongs_to)["epoch"] == 1


def test_a_checkpoint_of_another_kind_gets_an_error_message(stopped, tmp_path):
    settings, out = stopped
    path = out / "checkpoint.pt"
    whole = path.read_bytes()
    torch.save({"format": 2}, tmp_path / "foreign.pt")
    foreign = (tmp_path / "foreign.pt").read_bytes()
    for contents in (b"", b"x", foreign, b"\0" * len(whole), whole + b"x", whole[:-1]):
        path.write_bytes(contents)
        with pytest.raises(ValueError, match=r"checkpoint\.pt is damaged"):
            train(settings, out, CPU, resume=True)
    assert path.read_bytes() == whole[:-1]  # nothing was trained over it


@pytest.mark.parametrize(
    "left",
    [
        lambda text: "",
        lambda text: text + text,
        lambda text: text + text[: len(text) // 2],
        lambda text: text[: len(text) // 2],
        lambda text: "\0" * len(text),
        lambda text: None,
    ],
    ids=["emptied", "twice", "torn line", "cut", "zeros", "removed"],
)
def test_records_after_a_resume(stopped, tmp_path, left):
    """Each epoch once, whatever a kill or a power failure has made of the file."""
    settings, out = stopped
    path = out / "metrics.jsonl"
    text = left(path.read_text())
    path.unlink() if text is None else path.write_text(text)
    train(settings, out, CPU, resume=True)
    assert "\0" not in path.read_text()
    train(settings, tmp_path / "whole", CPU)
    assert outcome(out) == outcome(tmp_path / "whole")


def test_records_of_a_run_killed_before_its_first_checkpoint(stopped):
    """The first epoch is trained again, and reported once."""
    settings, out = stopped
    (out / "checkpoint.pt").unlink()
    train(settings, out, CPU, resume=True)
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in records] == [1, 2, 3]


def test_leftovers_of_killed_writes_are_removed(stopped, tmp_path):
    settings, out = stopped
    cache = tmp_path / "cache"
    cache.mkdir()
    left = [out / ".checkpoint.pt.abcd12_3.part", cache / ".0123.pt.abcdefgh.part"]
    mine = [out / ".notes.part", out / "notes.abcdefgh.part"]
    for path in (*left, *mine):
        path.write_bytes(b"half")
    train(settings.replace(warm_up_cache=str(cache)), out, CPU, resume=True)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in mine)


def test_files_of_somebody_else_are_not_overwritten(clusters, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "metrics.jsonl").write_text("mine")
    with pytest.raises(FileExistsError, match=r"holds a metrics\.jsonl, but no settings\.toml"):
        train(quick_settings(clusters, "CE"), out, CPU)
    assert (out / "metrics.jsonl").read_text() == "mine"


def test_a_changed_settings_file_is_named(stopped):
    settings, out = stopped
    path = out / "settings.toml"
    path.write_text(path.read_text().replace("epochs = 3\n", "epochs = 0\n", 1))
    with pytest.raises(ValueError, match=r"settings\.toml: epochs must be at least 1; got 0"):
        train(settings, out, CPU, resume=True)
