"""Two processes train what one does, up to rounding."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from training_cases import CPU, flags, model_tensors, quick_settings, quick_values, write_clusters

from ptd_ext.experiments.run.experiment import train
from ptd_ext.experiments.toml import write_config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz", samples=701)


TORCHRUN = [
    *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
    *("-m", "ptd_ext", "train"),
]


def torchrun(*arguments):
    done = subprocess.run([*TORCHRUN, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# Revision; selection over the whole batch by two networks; a determinant of the whole batch; counts
# of it.
@pytest.mark.parametrize("method", ["PTD-R-V", "Co-teaching+", "DMI", "PTD-L"])
def test_two_processes(clusters, tmp_path, method):
    """631 samples in batches of 64: the last batch, and its halves, are uneven."""
    one, two = tmp_path / "one", tmp_path / "two"
    train(quick_settings(clusters, method=method, select="last"), one, CPU)
    values = quick_values(clusters, method, device="cpu", select="last")
    printed = torchrun(*flags(values), "--out", str(two))
    assert "2 processes" in printed
    assert printed.count("clean test accuracy") == 1
    results = [json.loads((folder / "result.json").read_text()) for folder in (one, two)]
    for name in ("test_accuracy", "validation_accuracy", "chosen_epoch"):
        assert results[0][name] == pytest.approx(results[1][name])
    networks = [model_tensors(folder) for folder in (one, two)]
    torch.testing.assert_close(networks[0], networks[1], rtol=1e-3, atol=1e-4)
    if method == "PTD-R-V":
        slack = [tensors["0.slack"] for tensors in networks]
        assert slack[0].abs().max() > 1e-4
        torch.testing.assert_close(slack[0], slack[1], rtol=1e-2, atol=1e-5)


NORMALISING = """
from torch import nn

class Network(nn.Module):
    def __init__(self, classes, inputs):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs.numel(), 16), nn.BatchNorm1d(16), nn.ReLU())
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        features = self.body(x)
        return features, self.fc(features)
"""


def test_batches_are_normalised_as_a_whole(clusters, tmp_path, monkeypatch):
    """Statistics, gradients and running averages; 631 samples, so that shares are uneven."""
    (tmp_path / "normalising_network.py").write_text(NORMALISING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    changes = {"network": "normalising_network:Network", "select": "last", "device": "cpu"}
    one, two = tmp_path / "one", tmp_path / "two"
    train(quick_settings(clusters, "CE", **changes), one, CPU)
    torchrun(*flags(quick_values(clusters, "CE", **changes)), "--out", str(two))
    networks = [model_tensors(folder) for folder in (one, two)]
    assert networks[0]["0.network.body.1.num_batches_tracked"] == 30
    torch.testing.assert_close(networks[0], networks[1], rtol=1e-3, atol=1e-4)


def test_two_processes_resume(clusters, tmp_path):
    """Two processes can finish a run that one process began."""
    from ptd_ext.engine.training import train_step
    from ptd_ext.engine.training.signals import Stopped

    whole, shared = tmp_path / "whole", tmp_path / "shared"
    settings = quick_settings(clusters, method="CE", checkpoint_steps=7, device="cpu")
    train(settings, whole, CPU)
    with pytest.MonkeyPatch.context() as patch:
        step, calls = train_step.TrainStep.step, []

        def stop_at(self, *arguments):
            calls.append(1)
            if len(calls) == 9:
                raise Stopped(15)
            step(self, *arguments)

        patch.setattr(train_step.TrainStep, "step", stop_at)
        with pytest.raises(Stopped):
            train(settings, shared, CPU)
    write_config(vars(settings), shared / "given.toml")
    torchrun("--out", str(shared), "--resume")
    networks = [model_tensors(folder) for folder in (whole, shared)]
    torch.testing.assert_close(networks[0], networks[1], rtol=1e-3, atol=1e-5)


def test_a_signal_to_one_process_stops_both(clusters, tmp_path):
    """Ten steps an epoch: fewer than lie between two questions whether to stop."""
    out = tmp_path / "run"
    values = quick_values(clusters, "CE", device="cpu", epochs=100000, milestones=())
    process = subprocess.Popen(
        [*TORCHRUN, *flags(values), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (out / "checkpoint.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (second,) = (c for c in children if b"\0RANK=1\0" in Path(f"/proc/{c}/environ").read_bytes())
    os.kill(int(second), signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "stopped by SIGTERM; the checkpoint is saved" in errors
    assert torch.load(out / "checkpoint.pt", weights_only=True)["epoch"] > 0
