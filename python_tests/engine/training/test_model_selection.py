"""Model selection by held-out given labels alone."""

from types import SimpleNamespace

import pytest
import torch

from ptd_ext.engine.stage.observer import Observer
from ptd_ext.engine.stage.state import Scores
from ptd_ext.engine.training.model_selection import better_model, validate

LOGITS = {
    "sure": torch.tensor([[1.0, 0.0], [1.0, 0.0]]),
    "unsure": torch.tensor([[0.5, 0.5], [0.5, 0.5]]),
    "broken": torch.tensor([[torch.nan, 0.0], [1.0, 0.0]]),
}


def context(*networks, select="likelihood", observer=None):
    return SimpleNamespace(
        data=SimpleNamespace(validation_labels=torch.tensor([0, 1])),
        observer=observer or Observer(),
        outputs=SimpleNamespace(estimate=None),
        networks=networks,
        predict=lambda network, rows: SimpleNamespace(logits=LOGITS[network]),
        settings=SimpleNamespace(select=select),
    )


STAGE = SimpleNamespace(
    name="train",
    noisy_posterior=lambda logits, weights: logits,
    schedules=lambda: [],
    named_parameters=lambda: {"slack": torch.ones(2)}.items(),
)


def test_a_label_that_is_ruled_out_leaves_a_likelihood():
    """Models are compared by it, and two infinities are equal."""
    scores, _ = validate(context("sure"), STAGE, 0)
    assert scores.validation_likelihood == pytest.approx(torch.tensor(1e-30).log().item() / 2)
    assert scores.validation_accuracy == 50
    assert scores.value == scores.validation_likelihood
    assert scores.epoch == 1


@pytest.mark.parametrize(
    ("select", "network", "value"),
    [("likelihood", "unsure", -0.6931472), ("accuracy", "sure", 50), ("last", "sure", 4)],
)
def test_the_better_of_two_networks(select, network, value):
    scores, found = validate(context("sure", "unsure", select=select), STAGE, 4)
    assert found == network
    assert scores.value == pytest.approx(value)


def test_figures_of_an_observer_are_kept_and_not_compared():
    class Seen(Observer):
        def figures(self, logits_of):
            return {"test_accuracy": logits_of("rows")[0, 0].item()}

    scores, found = validate(context("sure", "unsure", observer=Seen()), STAGE, 0)
    assert found == "unsure"
    assert scores.figures()["test_accuracy"] == 0.5


def test_only_a_better_model_replaces_the_best():
    network = torch.nn.Linear(1, 1)
    scores = [Scores(epoch, value, 0, 0, {}) for epoch, value in enumerate((1.0, 1.0, 2.0))]
    best = better_model(None, scores[0], network, STAGE)
    assert better_model(best, scores[1], network, STAGE) is best
    newer = better_model(best, scores[2], network, STAGE)
    with torch.no_grad():
        network.weight.zero_()
    assert newer.scores is scores[2]
    assert newer.network["weight"].item() != 0  # a copy
    assert newer.stage_parameters["slack"].tolist() == [1, 1]
