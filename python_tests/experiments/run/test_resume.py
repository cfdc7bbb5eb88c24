"""Interrupted runs end where uninterrupted ones do, to the last bit."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from training_cases import (
    CPU,
    TRAIN,
    flags,
    outcome,
    quick_settings,
    quick_values,
    run_script,
    write_clusters,
)

from ptd_ext.cli import main
from ptd_ext.experiments.run.experiment import train

# Kills itself with SIGKILL, which no code can soften: at the n-th step, or before the checksum of
# the n-th checkpoint, whose contents are written.
KILLED = """
import os, signal, sys
from ptd_ext.cli import main
from ptd_ext.engine.training import checkpoint
from ptd_ext.engine.training import train_step

where, count = sys.argv[1], int(sys.argv[2])
calls = 0

def die_at(call):
    def wrapped(*args, **options):
        global calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **options)
    return wrapped

if where == "write":
    checkpoint._checksum = die_at(checkpoint._checksum)
else:
    train_step.TrainStep.step = die_at(train_step.TrainStep.step)
main(["train", *sys.argv[3:]])
"""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz")


def command(clusters, out, method, **changes):
    return [*flags(quick_values(clusters, method, **changes)), "--out", str(out)]


# Ten steps an epoch: 3 epochs of warm-up, 3 of training, 2 of revision.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "where", "count"),
    [
        ("PTD-R-V", "step", 15),
        ("PTD-R-V", "step", 47),
        ("PTD-R-V", "step", 73),
        ("PTD-R-V", "write", 5),
        ("Co-teaching+", "step", 17),
        ("Joint", "write", 4),
    ],
)
def test_sigkill(clusters, tmp_path, method, where, count):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    settings = quick_settings(clusters, method=method)
    train(settings, whole, CPU)
    killed = run_script(KILLED, where, count, *command(clusters, broken, method))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (broken / "result.json").exists()
    resumed = run_script(TRAIN, "--out", broken, "--resume", check=0)
    assert "continuing in stage" in resumed.stdout
    assert outcome(broken) == outcome(whole)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stops_cleanly(clusters, tmp_path, number, code):
    """The command ends with an error message, and the checkpoint is of what was reached by then."""
    out = tmp_path / "run"
    arguments = command(clusters, out, "PTD-F", warm_up_epochs=100000, batch_size=4)
    process = subprocess.Popen(
        [sys.executable, "-c", TRAIN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 120
    while not (out / "checkpoint.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code
    assert f"Continue with ptd-ext train --out {out} --resume".encode() in errors
    assert b"Traceback" not in errors
    state = torch.load(out / "checkpoint.pt", weights_only=True)
    assert (state["epoch"], state["step"]) > (0, 0)


# Within the main stage; within the counting of PTD-L; within the training on learned parts.
@pytest.mark.parametrize(
    ("method", "count", "place"),
    [("PTD-R-V", 34, (1, 0, 4)), ("PTD-L", 44, (1, 1, 4)), ("PTD-L", 65, (2, 0, 5))],
)
def test_stopped_in_the_middle_of_an_epoch_is_bit_identical(
    clusters, tmp_path, monkeypatch, method, count, place
):
    from ptd_ext.engine.training import train_step
    from ptd_ext.engine.training.signals import Stopped

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    settings = quick_settings(clusters, method=method)
    train(settings, whole, CPU)
    step, calls = train_step.TrainStep.step, []

    def signalled(self, *arguments):
        calls.append(1)
        if len(calls) == count:
            signal.raise_signal(signal.SIGTERM)
        step(self, *arguments)

    monkeypatch.setattr(train_step.TrainStep, "step", signalled)
    with pytest.raises(Stopped):
        train(settings, stopped, CPU)
    state = torch.load(stopped / "checkpoint.pt", weights_only=True)
    assert (state["stage"], state["epoch"], state["step"]) == place
    train(settings, stopped, CPU, resume=True)
    assert len(calls) == 80
    assert outcome(stopped) == outcome(whole)


def test_stopped_twice_and_at_the_very_end(clusters, tmp_path, monkeypatch):
    """Records, times and the last epoch's scores come through two stops, one after training."""
    from ptd_ext.engine.model import fit
    from ptd_ext.engine.training import trainer
    from ptd_ext.engine.training.signals import Stopped

    better = trainer.better_model
    # The best epoch is the first one, and much is learned after it.
    monkeypatch.setattr(trainer, "better_model", lambda best, *new: best or better(best, *new))
    whole, out = tmp_path / "whole", tmp_path / "stopped"
    settings = quick_settings(clusters, method="CE", optimiser="sgd", lr=1e-3)
    result = train(settings, whole, CPU)
    assert result["test_accuracy_last"] > result["test_accuracy"]
    stop_at(monkeypatch, 13, 9)
    for resume in (False, True):
        with pytest.raises(Stopped):
            train(settings, out, CPU, resume=resume)
    state = torch.load(out / "checkpoint.pt", weights_only=True)
    assert (state["epoch"], state["step"]) == (2, 2)
    with monkeypatch.context() as patch:
        patch.setattr(fit, "_result", lambda trainer: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(settings, out, CPU, resume=True)
    before = torch.load(out / "checkpoint.pt", weights_only=True)["seconds"]
    result = train(settings, out, CPU, resume=True)
    assert outcome(out) == outcome(whole)
    seconds = [json.loads(line)["seconds"] for line in (out / "metrics.jsonl").open()]
    assert result["seconds"] == before > sum(seconds)


def stop_at(monkeypatch, *counts):
    """SIGTERM in front of the steps of these numbers, each counted from the one before."""
    from ptd_ext.engine.training import train_step

    step, left = train_step.TrainStep.step, list(counts)

    def signalled(self, *arguments):
        if left:
            left[0] -= 1
            if left[0] == 0:
                left.pop(0)
                signal.raise_signal(signal.SIGTERM)
        step(self, *arguments)

    monkeypatch.setattr(train_step.TrainStep, "step", signalled)


def test_a_finished_run_is_not_repeated(clusters, tmp_path, monkeypatch):
    from ptd_ext.engine.training import train_step

    settings = quick_settings(clusters, method="CE")
    first = train(settings, tmp_path / "run", CPU)
    monkeypatch.setattr(train_step.TrainStep, "step", None)
    assert train(settings, tmp_path / "run", CPU, resume=True) == first
    with pytest.raises(FileExistsError, match="--resume"):
        train(settings, tmp_path / "run", CPU)


@pytest.fixture
def crashed(clusters, tmp_path, monkeypatch):
    """The folder of a run by cross entropy that crashed in its second epoch."""
    from ptd_ext.engine.training import train_step

    step, calls = train_step.TrainStep.step, []

    def crash(self, *arguments):
        calls.append(1)
        if len(calls) == 15:
            raise MemoryError
        step(self, *arguments)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(train_step.TrainStep, "step", crash)
        with pytest.raises(MemoryError):
            main(["train", *command(clusters, out, "CE")])
    return out


def test_other_settings_are_rejected(clusters, crashed):
    with pytest.raises(ValueError, match="other settings"):
        train(quick_settings(clusters, method="CE", lr=0.5), crashed, CPU, resume=True)


def test_a_damaged_checkpoint_is_rejected(crashed, capsys):
    checkpoint = crashed / "checkpoint.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with pytest.raises(SystemExit) as ended:
        main(["train", "--out", str(crashed), "--resume"])
    assert ended.value.code == 2
    errors = capsys.readouterr().err
    assert "damaged" in errors
    assert "Traceback" not in errors


def test_warmed_up_networks_are_shared(clusters, tmp_path):
    """A method that finds another's warmed-up network ends where it would have without."""
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    cache = {"warm_up_cache": str(tmp_path / "cache")}
    train(quick_settings(clusters, method="PTD-R"), alone, CPU)
    train(quick_settings(clusters, method="Forward", **cache), tmp_path / "forward", CPU)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    train(quick_settings(clusters, method="PTD-R", **cache), shared, CPU)
    assert outcome(shared) == outcome(alone)  # with the records of the warm-up
    for name in ("model.safetensors", "labels.safetensors"):
        assert (shared / name).read_bytes() == (alone / name).read_bytes()
    train(quick_settings(clusters, method="PTD-R", seed=1, **cache), tmp_path / "other", CPU)
    assert len(list((tmp_path / "cache").iterdir())) == 2
