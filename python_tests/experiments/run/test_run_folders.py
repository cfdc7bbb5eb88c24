"""Folders of runs: nothing in them is mixed up, overwritten or left behind."""

import dataclasses
import fcntl
import json
import signal

import pytest
import torch
from training_cases import CPU, flags, outcome, quick_settings, quick_values, write_clusters

from ptd_ext.cli import main
from ptd_ext.engine.training import train_step, trainer
from ptd_ext.engine.training.signals import Stopped
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.run.experiment import train


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz")


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "others.npz", features=9)


def signal_at(monkeypatch, call):
    """SIGTERM in front of a step, counted from one; returns the counter."""
    step, calls = train_step.TrainStep.step, []

    def signalled(self, *arguments):
        calls.append(1)
        if len(calls) == call:
            signal.raise_signal(signal.SIGTERM)
        step(self, *arguments)

    monkeypatch.setattr(train_step.TrainStep, "step", signalled)
    return calls


@pytest.mark.parametrize("call", [5, 75])  # in the run it is compared with, and in its own
def test_a_comparison_goes_on_with_what_it_was_given(clusters, tmp_path, monkeypatch, capsys, call):
    given = quick_values(clusters, "PTD-F", against="Forward")
    main(["train", *flags(given), "--out", str(tmp_path / "whole")])
    with monkeypatch.context() as patch:
        signal_at(patch, call)
        with pytest.raises(SystemExit) as ended:
            main(["train", *flags(given), "--out", str(tmp_path / "stopped")])
    assert ended.value.code == 143
    assert f"--out {tmp_path / 'stopped'} --resume" in capsys.readouterr().err
    main(["train", "--out", str(tmp_path / "stopped"), "--resume"])
    for folder in ("", "against-Forward"):
        assert outcome(tmp_path / "stopped" / folder) == outcome(tmp_path / "whole" / folder)


def test_there_must_be_something_to_resume(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--out", str(tmp_path), "--resume"])
    assert "does not hold a run to continue" in capsys.readouterr().err


def test_a_finished_run_of_other_settings_is_not_taken_for_this_one(clusters, tmp_path, capsys):
    train(quick_settings(clusters, "CE"), tmp_path / "run", CPU)
    with pytest.raises(ValueError, match=r"other settings: lr was 0\.05 and is 0\.5"):
        train(quick_settings(clusters, "CE", lr=0.5), tmp_path / "run", CPU, resume=True)
    values = quick_values(clusters, "CE")
    del values["method"]
    command = ["compare", "--methods", "CE", "--seeds", "1", "--out", str(tmp_path / "compare")]
    main([*command, *flags(values)])
    with pytest.raises(SystemExit):
        main([*command, *flags({**values, "noise": "symmetric"})])
    assert "noise was 'pairwise' and is 'symmetric'" in capsys.readouterr().err


def test_where_a_run_lies_does_not_matter(clusters, tmp_path):
    moved = write_clusters(tmp_path / "moved.npz")
    first = train(quick_settings(clusters, "CE"), tmp_path / "run", CPU)
    changes = {"threads": 0, "checkpoint_steps": 3, "channels_last": False}
    settings = quick_settings(moved, "CE", **changes)
    assert train(settings, tmp_path / "run", CPU, resume=True) == first


def test_two_runs_cannot_share_a_folder(clusters, tmp_path):
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another process writes to it"):
            train(quick_settings(clusters, "CE"), tmp_path / "run", CPU)
    train(quick_settings(clusters, "CE"), tmp_path / "run", CPU)


@pytest.mark.parametrize(
    "mistake",
    [{"method": "PTD_F"}, {"network": "resnet999"}, {"data_limit": 1}, {"network": "json:loads"}],
)
def test_a_mistake_leaves_nothing_behind(clusters, tmp_path, capsys, mistake):
    out = tmp_path / "run"
    values = {**quick_values(clusters, "PTD-F"), **mistake}
    with pytest.raises(SystemExit) as ended:
        main(["train", *flags(values), "--out", str(out)])
    assert ended.value.code == 2
    assert not out.exists()


def test_warmed_up_networks_of_other_data_are_not_taken(clusters, others, tmp_path):
    """Checkpoints of other data are not taken either."""
    cache = {"warm_up_cache": str(tmp_path / "cache")}
    train(quick_settings(clusters, "PTD-F", **cache), tmp_path / "a", CPU)
    train(quick_settings(others, "PTD-F", **cache), tmp_path / "b", CPU)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    (tmp_path / "a" / "result.json").unlink()
    with pytest.raises(ValueError, match="other settings or data"):
        train(quick_settings(others, "PTD-F"), tmp_path / "a", CPU, resume=True)


def test_a_damaged_warm_up_gets_an_error_message(clusters, tmp_path):
    cache = {"warm_up_cache": str(tmp_path / "cache")}
    train(quick_settings(clusters, "PTD-F", **cache), tmp_path / "a", CPU)
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(ValueError, match="is damaged"):
        train(quick_settings(clusters, "PTD-R", **cache), tmp_path / "b", CPU)


def test_an_interrupted_factorisation_is_not_kept(clusters, tmp_path, monkeypatch):
    from ptd_ext import SimplexNMF

    fit = SimplexNMF.fit_transform

    def interrupted(self, x):
        weights = fit(self, x)
        self.interrupted_ = True
        return weights

    settings = quick_settings(clusters, "PTD-F")
    with monkeypatch.context() as patch:
        patch.setattr(SimplexNMF, "fit_transform", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(settings, tmp_path / "run", CPU)
    train(settings, tmp_path / "run", CPU, resume=True)
    train(settings, tmp_path / "whole", CPU)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


class Dropping(torch.nn.Module):
    def __init__(self, classes, inputs):
        super().__init__()
        self.drop, self.fc = torch.nn.Dropout(0.5), torch.nn.Linear(inputs.numel(), classes)

    def forward(self, x):
        return x, self.fc(self.drop(x))


def test_layers_that_draw_are_seeded_and_resumed(clusters, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "build_network", _dropping)
    settings = quick_settings(clusters, "CE", epochs=2)
    for name in ("one", "two"):
        train(settings, tmp_path / name, CPU)
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")
    with monkeypatch.context() as patch:
        signal_at(patch, 13)
        with pytest.raises(Stopped):
            train(settings, tmp_path / "three", CPU)
    torch.manual_seed(99)
    train(settings, tmp_path / "three", CPU, resume=True)
    assert outcome(tmp_path / "three") == outcome(tmp_path / "one")
    other = quick_settings(clusters, "CE", epochs=2, seed=1)
    train(other, tmp_path / "other", CPU)
    assert outcome(tmp_path / "other")[2] != outcome(tmp_path / "one")[2]


def _dropping(settings, data, device, ranks, seed):
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return Dropping(data.n_classes, data.sample_shape)


def test_epochs_of_one_step_stop_too(clusters, tmp_path, monkeypatch):
    calls = signal_at(monkeypatch, 2)
    settings = quick_settings(clusters, "CE", batch_size=1000)
    with pytest.raises(Stopped):
        train(settings, tmp_path / "run", CPU)
    assert len(calls) == 2
    train(settings, tmp_path / "run", CPU, resume=True)
    assert len(calls) == 3


def test_the_rate_of_noise_that_is_not_made_here(clusters, tmp_path):
    """A share to leave out must be known or given; no message names the default rate."""
    settings = quick_settings(clusters, "Co-teaching", noise="none")
    with pytest.raises(ValueError, match="forget_rate must be given"):
        train(settings, tmp_path / "run", CPU)
    result = train(settings.replace(forget_rate=0.2), tmp_path / "run", CPU)
    assert result["rate"] is None
    problem = load_problem(quick_settings(clusters, "Co-teaching", rate=0.2))
    problem = dataclasses.replace(problem, asked_rate=None)
    settings = quick_settings(clusters, "Co-teaching", rate=0.4).for_training(problem.known_rate)
    found = Trainer(settings, problem.data, CPU.device)
    assert found.stages[0].settings.left_out == pytest.approx(problem.realised_rate)


def test_results_are_json(clusters, tmp_path):
    result = train(quick_settings(clusters, "PTD-F-V"), tmp_path / "run", CPU)
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    assert (tmp_path / "run" / "model.safetensors").exists()
