"""The commands as a user calls them."""

import csv
import json

import numpy as np
import pytest
from training_cases import flags, quick_values, write_clusters

from ptd_ext.cli import COMMANDS, main
from ptd_ext.experiments.toml import read_config

pytest.importorskip("sklearn")


@pytest.fixture
def clusters(tmp_path):
    return write_clusters(tmp_path / "clusters.npz")


def values(clusters, method="PTD-F", **changes):
    return quick_values(clusters, method, **changes)


@pytest.mark.parametrize(
    "command", ["train", "compare", "reproduce", "noise", "info", "selftest", "review"]
)
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert f"ptd-ext {command}" in printed
    assert len(printed) > 150


def test_train_without_arguments_is_the_embedded_default(tmp_path, monkeypatch, capsys):
    """With fewer epochs: digits, 40 % instance noise, PTD beside CE, in a new folder of runs/."""
    monkeypatch.chdir(tmp_path)
    short = {"epochs": 2, "warm_up_epochs": 2, "revision_epochs": 1}
    for number in ("", "-2"):
        main(["train", *flags(short)])
        printed = capsys.readouterr().out
        assert "digits" in printed
        out = tmp_path / "runs" / f"digits-PTD-L-0.4-0{number}"
        assert "CE  " in printed.split("chosen on noisy validation")[1]
        assert "PTD-L" in printed.split("chosen on noisy validation")[1]
        kept = read_config(out / "settings.toml")
        assert (kept["dataset"], kept["rate"], kept["noise"]) == ("digits", 0.4, "instance")
        assert (kept["epochs"], kept["against"]) == (2, "CE")
        result = json.loads((out / "result.json").read_text())
        assert 0.3 < result["realised_rate"] < 0.5
        assert result["approximation_error"] > 0
        assert (out / "against-CE" / "result.json").exists()


def test_records_of_epochs(clusters, tmp_path):
    main(["train", *flags(values(clusters, method="PTD-F")), "--out", str(tmp_path / "run")])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [(r["stage"], r["epoch"]) for r in records] == [
        *(("warm up", n) for n in (1, 2, 3)),
        *(("train", n) for n in (1, 2, 3)),
    ]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    best = max(records[3:], key=lambda r: r["validation_accuracy"])
    assert result["test_accuracy"] == best["test_accuracy"]
    assert result["test_accuracy_last"] == records[-1]["test_accuracy"]
    assert result["chosen_epoch"] == best["epoch"]


def test_wrong_labels_are_found_and_put_right(clusters, tmp_path):
    given = values(clusters, method="PTD-F", epochs=8, milestones=(6,), warm_up_epochs=6)
    main(["train", *flags(given), "--out", str(tmp_path / "run")])
    main(["train", *flags({**given, "method": "CE"}), "--out", str(tmp_path / "ce")])
    assert not (tmp_path / "ce" / "labels.csv").exists()
    with (tmp_path / "run" / "labels.csv").open() as file:
        found = list(csv.DictReader(file))
    clean = np.load(clusters)["y"]
    assert [int(row["id"]) for row in found] == list(range(700))
    wrong = np.array([int(row["given_label"]) for row in found]) != clean
    order = np.argsort([float(row["label_quality"]) for row in found])
    assert np.mean(wrong[order][:150]) > 0.95
    assert np.mean(wrong[order][-300:]) < 0.05
    better = np.array([int(row["suggested_label"]) for row in found]) == clean
    assert np.mean(better) > 0.87 > 0.75 > 1 - np.mean(wrong)


def test_labels_as_they_come(clusters, tmp_path, capsys):
    """The noise of such labels is not known, and the result claims nothing about it."""
    given = values(clusters, method="PTD-F", noise="none")
    main(["train", *flags(given), "--out", str(tmp_path / "run")])
    printed = capsys.readouterr().out
    assert "noise rate unknown" in printed
    assert "given-label test accuracy, at the epoch chosen on given-label validation" in printed
    assert "clean" not in printed
    assert "noisy" not in printed
    assert str(tmp_path / "run" / "report.html") in printed
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["realised_rate"] is None
    assert result["approximation_error"] is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--dataset", "mnist", "--data", "/nowhere"], "train-images"),
        (["--dataset", "fashion"], "one of digits, mnist"),
        (["--method", "PTD"], "method must be one of CE"),
        (["--device", "warp:9"], "device must be"),
        (["--config", "/nowhere.toml"], "/nowhere.toml does not exist"),
        (["--resume"], "--resume needs --out"),
        (["--network", "alexnet"], "alexnet"),
    ],
)
def test_mistakes_get_a_sentence(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["train", *arguments])
    assert ended.value.code == 2
    errors = capsys.readouterr().err
    assert sentence in errors
    assert "Traceback" not in errors


def test_the_methods_are_listed(capsys):
    main(["train", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert "PTD-R-V        PTD-R, then T(x) + ΔT is learned" in lines


def test_without_arguments_the_help_is_printed(capsys):
    main([])
    printed = capsys.readouterr().out
    assert printed.startswith("usage: ptd-ext")
    for command in COMMANDS:
        assert f"\n    {command}" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trane", "a b.csv"], "got 'trane'. Did you mean `ptd-ext train 'a b.csv'`?"),
        (["own.csv", "--label", "kind"], "Did you mean `ptd-ext labels own.csv --label kind`?"),
        (["zzz"], "the command must be one of labels, "),
        (["train", "digits"], "Did you mean `ptd-ext train --dataset digits`?"),
        (["train", "PTD-F"], "Did you mean `ptd-ext train --method PTD-F`?"),
        (["train", "own.cvs"], "own.cvs is neither a file nor a folder. Did you mean own.csv?"),
        (["train", "own.csv", "--data", "x.csv"], "DATA and --data must not be given together"),
        (["train", "own.csv", "--lable", "kind"], "Did you mean --label?"),
        (["train", "own.csv", "--label", "kin"], "it has a, kind. Did you mean 'kind'?"),
        (["labels", "own.cvs", "--label", "kind"], "Did you mean own.csv?"),
    ],
)
def test_a_mistake_gets_the_nearest_right_command(
    arguments, message, capsys, tmp_path, monkeypatch
):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.csv").write_text("a,kind\n1,x\n2,y\n")
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err
    assert message in error
    assert "usage:" not in error


def test_train_takes_a_path_and_prints_a_line_for_every_stage(clusters, tmp_path, capsys):
    given = values(clusters, method="PTD-F")
    path = given.pop("data")
    main(["train", str(path), *flags(given), "--out", str(tmp_path / "run")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if "noisy validation  " in line] == ["warm", "train"]
    main(["train", str(path), *flags(given), "--verbose", "--out", str(tmp_path / "other")])
    lines = capsys.readouterr().out.splitlines()
    assert sum("noisy validation  " in line for line in lines) == 6
    assert any(line.startswith("anchors: ") for line in lines)


@pytest.mark.parametrize("command", ["train", "compare", "labels", "reproduce"])
def test_the_short_help_fits_a_screen_and_a_half(command, capsys):
    lengths = []
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit, match="0"):
            main([command, flag])
        lengths.append(capsys.readouterr().out.split("examples:")[0].count("\n"))
    assert lengths[0] <= 55
    assert lengths[0] < lengths[1]
