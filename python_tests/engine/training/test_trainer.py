"""The trainer: stages, epochs and what it leaves to others."""

import json

import pytest
import torch
from training_cases import CPU, quick_settings, write_clusters

from ptd_ext.engine.stage.observer import Observer
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.run.experiment import train


@pytest.fixture
def clusters(tmp_path):
    return write_clusters(tmp_path / "clusters.npz")


def test_the_loss_of_an_epoch_is_that_of_its_samples(clusters, tmp_path):
    """An untrained network knows nothing of four classes, and a trained one more."""
    train(quick_settings(clusters, "CE", noise="none", epochs=4), tmp_path / "run", CPU)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert 0.2 < losses[0] < 1.5
    assert 0 < losses[-1] < losses[0]


def test_an_observer_changes_nothing(clusters):
    """Nor does a trainer without one know of any test accuracy."""

    class Drawing(Observer):
        def figures(self, logits_of):
            return {"test_accuracy": torch.rand(()).item()}

    settings = quick_settings(clusters, "CE")
    data, networks = load_problem(settings).data, []
    for observer in (None, Drawing()):
        trainer = Trainer(settings, data, CPU.device, observer=observer)
        assert trainer.train() is None
        known = [set(record) & {"test_accuracy"} for record in trainer.log.records]
        assert known == [set() if observer is None else {"test_accuracy"}] * 3
        networks.append(trainer.best.network)
    torch.testing.assert_close(networks[0], networks[1], rtol=0, atol=0)


def test_the_accuracy_on_held_out_labels_is_that_after_the_warm_up(clusters):
    settings = quick_settings(clusters, "Forward")
    trainer = Trainer(settings, load_problem(settings).data, CPU.device)
    trainer.train()
    warm_up = [r["validation_accuracy"] for r in trainer.log.records if r["stage"] == "warm up"]
    assert len(warm_up) == 3
    assert trainer.held_out_accuracy() == pytest.approx(max(warm_up) / 100)
    network = trainer.network_of(trainer.best.network)
    assert not network.training
    logits = trainer.predict(network, "validation").logits
    found = (logits.argmax(1) == trainer.data.validation_labels).double().mean().item()
    assert 100 * found == pytest.approx(trainer.best.scores.validation_accuracy)
