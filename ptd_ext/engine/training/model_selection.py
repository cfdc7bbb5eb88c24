"""Model selection: the model of a stage that does best on noisy validation data is kept."""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import Tensor, nn

from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.stage.evaluate import accuracy
from ptd_ext.engine.stage.stage import Stage, StageContext
from ptd_ext.engine.stage.state import BestModel, Scores
from ptd_ext.engine.training.train_step import diverged


@torch.no_grad()
def validate(context: StageContext, stage: Stage, epoch: int) -> tuple[Scores, nn.Module]:
    """Return the better of the networks after an epoch, counted from 0 (−1: before the first).

    What the observer finds is only reported.
    """
    data, transition = context.data, context.outputs.estimate
    weights = None if transition is None else transition.validation_weights
    found: list[tuple[Scores, nn.Module]] = []
    for network in context.networks:
        logits = context.predict(network, "validation").logits
        if not logits.isfinite().all():  # after the last step, whose result no loss has seen yet
            when = f"after epoch {epoch + 1}" if epoch >= 0 else "before the first epoch"
            raise diverged(stage, f"Predictions are not finite {when}")
        posterior = stage.noisy_posterior(logits, weights)
        labels = data.validation_labels
        picked = posterior.gather(1, labels[:, None]).double()
        figures = {
            "validation_accuracy": accuracy(posterior, labels),
            "validation_likelihood": picked.clamp(min=1e-30).log().mean().item(),
        }
        value = figures.get(f"validation_{context.settings.select}", float(epoch))
        observed = context.observer.figures(partial(_logits, context, network))
        scores = Scores(epoch=epoch + 1, value=value, observed=observed, **figures)
        found.append((scores, network))
    return max(found, key=lambda pair: pair[0].value)


def _logits(context: StageContext, network: nn.Module, inputs: Inputs) -> Tensor:
    return context.predict(network, inputs).logits


def better_model(
    best: BestModel | None, scores: Scores, network: nn.Module, stage: Stage
) -> BestModel:
    """The best model so far, or a copy of this one if it is better."""
    if best is not None and scores.value <= best.scores.value:
        return best
    # Only the stage's parameters are copied: its per-sample buffers need not be restored.
    parameters = {name: p.detach().clone() for name, p in stage.named_parameters()}
    return BestModel(scores, copy.deepcopy(network.state_dict()), parameters)
