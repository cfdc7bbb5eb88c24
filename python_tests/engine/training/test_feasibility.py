"""Settings that cannot work are reported before the first epoch, divergence with its step."""

import pytest
import torch
from training_cases import CPU, flags, quick_settings, quick_values, write_clusters

from ptd_ext import SimplexNMF
from ptd_ext.cli import main
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.training import train_step, trainer
from ptd_ext.engine.training.feasibility import check_last_batch
from ptd_ext.experiments.run.experiment import train
from ptd_ext.nmf.estimator import MAX_PARTS


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz")


@pytest.fixture
def no_steps(monkeypatch):
    def step(*arguments):
        raise AssertionError("a step was trained")

    monkeypatch.setattr(train_step.TrainStep, "step", step)


def error_of(command, values, out, capsys):
    """The message of a command that ends with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main([*command, *flags(values), "--out", str(out)])
    printed = capsys.readouterr().err
    assert ended.value.code == 2, printed
    assert "Traceback" not in printed
    return printed


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        ("PTD-F", {"n_parts": 300}, "n_parts must be between 1 and 256; got 300"),
        (
            "PTD-F",
            {"anchor_band": (99, 97)},
            "anchor_band must be two percentiles from 0 to 100 in rising order",
        ),
        ("PTD-F", {"anchor_band": (-1, 97)}, "in rising order; got [-1.0, 97.0]"),
        ("CE", {"late_beta1": 1.0}, "late_beta1 must be at least 0 and less than 1; got 1.0"),
        ("CE", {"decay": -0.1}, "decay must be at least 0; got -0.1"),
        ("CE", {"decay_from": 1.5}, "decay_from must be between 0 and 1; got 1.5"),
        ("CE", {"seed": 2**64}, "seed must be between 0 and"),
        ("CE", {"forget_rate": -0.5}, "forget_rate must be between 0 and 1, or -1; got -0.5"),
        (
            "Co-teaching",
            {"forget_rate": 1.0},
            "forget_rate must keep at least one sample of a batch of 64",
        ),
        ("DMI", {"dmi_batch_size": 3}, "dmi_batch_size must be at least the number of classes, 4"),
        ("PTD-F", {"warm_up_cache": "/dev/null/cache"}, "warm_up_cache must be a folder"),
        ("CE", {"threads": 100000}, "threads must be at most"),
        ("Co-teaching", {"noise": "none", "against": "CE"}, "forget_rate must be given"),
        ("CE", {"against": "C"}, "method must be one of CE"),
        ("EM-F", {"class_prior": "0.5,0.5"}, "class_prior must have 4 shares, one per class"),
    ],
)
def test_train_checks_before_the_first_step(
    clusters, tmp_path, capsys, no_steps, method, wrong, message
):
    values = quick_values(clusters, method, **wrong)
    assert message in error_of(["train"], values, tmp_path / "run", capsys)
    assert not (tmp_path / "run").exists()


def test_compare_checks_all_methods_before_the_first_step(clusters, tmp_path, capsys, no_steps):
    values = quick_values(clusters, "CE")
    del values["method"]
    printed = error_of(["compare", "--methods", "CE", "PTD"], values, tmp_path / "out", capsys)
    assert "method must be one of CE" in printed
    wrong = {**values, "dmi_batch_size": 3}
    printed = error_of(["compare", "--methods", "CE", "DMI"], wrong, tmp_path / "out", capsys)
    assert "dmi_batch_size must be at least" in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits", "--n-parts", "300"], "n_parts must be between 1 and 256; got 300"),
        (
            ["ablation", "--dataset", "digits", "--n-parts", "300"],
            "n_parts must be between 1 and 256",
        ),
        (["digits", "--threads", "100000"], "threads must be at most"),
    ],
)
def test_reproduce_checks_before_the_first_cell(tmp_path, capsys, arguments, message):
    pytest.importorskip("scipy")
    assert message in error_of(["reproduce", *arguments], {}, tmp_path / "table", capsys)
    assert not (tmp_path / "table").exists()


def test_the_most_parts_are_those_of_the_factorisation():
    x = torch.rand(8, 3)
    Settings(n_parts=MAX_PARTS)
    SimplexNMF(256, max_iter=1).fit(x)
    with pytest.raises(ValueError, match="256"):
        SimplexNMF(257).fit(x)


class Normalising(torch.nn.Module):
    def __init__(self, classes, inputs):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(inputs.numel())
        self.fc = torch.nn.Linear(inputs.numel(), classes)

    def forward(self, x):
        return x, self.fc(self.norm(x))


def test_a_last_batch_of_one_sample(clusters, tmp_path, monkeypatch, no_steps):
    """630 samples in batches of 37: the last has one, which has no variance."""
    monkeypatch.setattr(trainer, "build_network", lambda *_: Normalising(4, torch.Size([8])))
    with pytest.raises(ValueError, match="batch_size must not leave a batch of 1 of the 630"):
        train(quick_settings(clusters, "CE", batch_size=37), tmp_path / "run", CPU)


@pytest.mark.parametrize("method", ["CE", "Co-teaching", "Joint", "DMI", "PTD-F"])
def test_a_loss_that_is_not_finite_is_located(clusters, tmp_path, monkeypatch, method):
    """In the second epoch, at the fourth of ten steps; the checkpoint is of the first epoch."""
    step, calls = train_step.TrainStep.step, []

    def spoilt(self, ids, inputs, *rest):
        calls.append(1)
        step(self, ids, inputs * (float("nan") if len(calls) == 14 else 1), *rest)

    monkeypatch.setattr(train_step.TrainStep, "step", spoilt)
    settings, out = quick_settings(clusters, method), tmp_path / "run"
    with pytest.raises(ValueError, match="not finite at step 4 of 10 in epoch 2 of stage") as error:
        train(settings, out, CPU)
    assert "Try a smaller learning rate (this stage has" in str(error.value)
    assert torch.load(out / "checkpoint.pt", weights_only=True)["epoch"] == 1
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 1
    assert not (out / "result.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "The loss is not finite at step 2 of 10 in epoch 1 of stage 'warm up'"),
        # One step an epoch: no loss of the epoch has seen what its step did.
        ({"batch_size": 1000}, "Predictions are not finite after epoch 1 of stage 'warm up'"),
        ({"checkpoint_steps": 5}, "The loss is not finite at step 2 of 10 in epoch 1"),
    ],
)
def test_a_learning_rate_that_diverges(clusters, tmp_path, capsys, changes, message):
    values = quick_values(clusters, "PTD-F", lr=1e30, **changes)
    printed = error_of(["train"], values, tmp_path / "run", capsys)
    assert message in printed
    assert "this stage has 1e+30" in printed
    assert not (tmp_path / "run" / "checkpoint.pt").exists()


@pytest.mark.parametrize(("samples", "sizes"), [(17, [8]), (17, [17, 16]), (5, [1])])
def test_a_last_batch_of_one_is_tried_without_a_trace(samples, sizes):
    network, one, state = Normalising(4, torch.Size([8])), torch.ones(1, 8), torch.get_rng_state()
    with pytest.raises(ValueError, match=f"batch of 1 of the {samples} training samples: Normal"):
        check_last_batch(network, one, samples, sizes)
    check_last_batch(torch.nn.Dropout(), one, samples, sizes)
    check_last_batch(network, one, samples, [size for size in range(2, 20) if samples % size != 1])
    assert torch.equal(torch.get_rng_state(), state)
