"""Which model of a stage is chosen: the one that does best on noisy validation data."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from ptd_ext.train.engine.evaluate import accuracy
from ptd_ext.train.engine.train_step import diverged
from ptd_ext.train.methods.base import Stage

if TYPE_CHECKING:
    from ptd_ext.train.engine.trainer import Run

__all__ = ["validate"]


@torch.no_grad()
def validate(run: Run, stage: Stage, epoch: int) -> dict[str, float]:
    """Accuracies now; `run.chosen` becomes this model if it is the best of the stage so far.

    Of several networks the better one counts. Clean test data are only reported.
    """
    best: dict[str, Any] = {}
    for network in run.networks:
        logits = run.predict(network, "validation").logits
        if not logits.isfinite().all():  # the last step's doing, which no loss has seen yet
            when = f"after epoch {epoch + 1}" if epoch >= 0 else "before the first epoch"
            raise diverged(stage, f"Predictions are not finite {when}")
        posterior = stage.noisy_posterior(logits, run.kept.get("validation_weights"))
        labels = run.problem.validation_labels
        picked = posterior.gather(1, labels[:, None]).double()
        found = {
            "validation_accuracy": accuracy(posterior, labels),
            "validation_likelihood": picked.clamp(min=1e-30).log().mean().item(),
        }
        test = run.predict(network, "test").logits
        found["test_accuracy"] = accuracy(test, run.problem.test_labels)
        value = found.get(f"validation_{run.settings.select}", float(epoch))
        if not best or value > best["value"]:
            best, winner = {**found, "value": value, "epoch": epoch + 1}, network
    run.last = best
    if "network" not in run.chosen or best["value"] > run.chosen["value"]:
        # The stage's parameters only: what it stores per sample need not go back in time.
        learned = {name: p.detach().clone() for name, p in stage.named_parameters()}
        state = copy.deepcopy(winner.state_dict())
        run.chosen = {**best, "network": state, "learned": learned}
    return {name: value for name, value in best.items() if name not in ("value", "epoch")}
