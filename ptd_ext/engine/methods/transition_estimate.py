"""T(x) from the warmed-up network: parts, anchors, part transitions (Algorithm 1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptd_ext.nmf.estimator import SimplexNMF
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.engine.state import TransitionEstimate
from ptd_ext.train.methods.base import StageContext
from ptd_ext.transition.anchors import Anchors, find_anchors
from ptd_ext.transition.fit import fit_part_transitions
from ptd_ext.transition.summary import summarise

__all__ = ["anchor_options", "estimate_transition", "say_estimate"]


def anchor_options(settings: Settings) -> dict[str, Any]:
    """The options of `find_anchors` among the settings."""
    band = settings.anchor_band[0], settings.anchor_band[1]
    return {"rule": settings.anchor_rule, "band": band, "count": settings.anchor_count}


def estimate_transition(context: StageContext, settings: Settings) -> TransitionEstimate:
    """Weights of the training and validation samples, the basis of both, and the parts."""
    posterior, network = context.outputs.posterior, context.networks[0]
    if posterior is None:
        raise RuntimeError("T(x) is estimated from the posterior of a warm-up stage.")
    context.write_tensors("warm_up.pt", network.state_dict())
    if settings.parts == 1:
        weights = posterior.new_ones(len(posterior), 1)
        validation_weights = posterior.new_ones(len(context.problem.validation), 1)
        basis = None
    else:
        features = context.predict(network, "train", features=True).features
        held_out = context.predict(network, "validation", features=True).features
        nmf = SimplexNMF(
            settings.parts, max_iter=settings.nmf_iterations, random_state=settings.seed
        )
        weights = nmf.fit_transform(features)
        if nmf.interrupted_:
            raise KeyboardInterrupt
        validation_weights = nmf.transform(held_out)
        basis = torch.as_tensor(nmf.components_)
    anchors = find_anchors(posterior, **anchor_options(settings))
    fit = fit_part_transitions(weights, posterior, anchors, ridge=settings.ridge)
    parts = fit.parts.to(posterior.dtype)
    estimate = TransitionEstimate(weights, validation_weights, parts, basis)
    context.ranks.from_first(estimate.tensors())
    context.log.say(_anchor_line(anchors, context.problem.train_clean))
    return estimate


def say_estimate(context: StageContext) -> None:
    """Say how much noise the estimate finds, how far T(x) varies, and how far to trust it."""
    t, labels = context.outputs.estimated(), context.problem.train_labels
    prior = t.class_prior
    if prior is None:
        # Anchors do not estimate the class prior; the shares of the noisy labels approximate it.
        prior = labels.bincount(minlength=context.problem.classes)
    context.log.say(str(summarise(t.parts, prior, len(labels), t.weights)))


def _anchor_line(anchors: Anchors, clean: Tensor | None) -> str:
    counts = anchors.counts
    text = f"anchors: {min(counts)} to {max(counts)} of a class"
    if clean is not None:
        right = [
            (clean[ids] == label).double().mean().item() for label, ids in enumerate(anchors.ids)
        ]
        text += f", {sum(right) / len(right):.0%} of them truly of it"
    return text
