"""T(x) from the warmed-up network: parts, anchors, part transitions (Algorithm 1)."""

from __future__ import annotations

import copy
from typing import Any

import torch

from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.stage import StageContext
from ptd_ext.engine.stage.state import SampleTransitions
from ptd_ext.nmf.estimator import SimplexNMF
from ptd_ext.transition.anchors import find_anchors
from ptd_ext.transition.estimate import EstimatedTransition
from ptd_ext.transition.fit import fit_part_transitions


def anchor_options(settings: Settings) -> dict[str, Any]:
    """The options of `find_anchors` among the settings."""
    band = settings.anchor_band[0], settings.anchor_band[1]
    return {"rule": settings.anchor_rule, "band": band, "count": settings.anchor_count}


def estimate_transition(context: StageContext, settings: Settings) -> SampleTransitions:
    """Estimate T(x): weights of training and validation samples, their basis, and the parts."""
    pred_probs, network = context.outputs.pred_probs, context.networks[0]
    assert pred_probs is not None  # from the warm-up
    if settings.n_parts == 1:
        weights = pred_probs.new_ones(len(pred_probs), 1)
        validation_weights = pred_probs.new_ones(len(context.data.validation), 1)
        basis = None
    else:
        context.outputs.feature_network = copy.deepcopy(network.state_dict())
        features = context.predict(network, "train", features=True).features
        held_out = context.predict(network, "validation", features=True).features
        nmf = SimplexNMF(
            settings.n_parts, max_iter=settings.nmf_max_iter, random_state=settings.seed
        )
        weights = nmf.fit_transform(features)
        if nmf.interrupted_:
            raise KeyboardInterrupt
        validation_weights = nmf.transform(held_out)
        basis = torch.as_tensor(nmf.components_)
    anchors = find_anchors(pred_probs, **anchor_options(settings))
    fit = fit_part_transitions(weights, pred_probs, anchors, ridge=settings.ridge)
    counts, right = anchors.counts, context.observer.anchor_accuracy(anchors.ids)
    correct = "" if right is None else f", {right:.0%} of them correct"
    context.log.detail(f"anchors: {min(counts)} to {max(counts)} per class{correct}")
    parts = fit.parts.to(pred_probs.dtype)
    return SampleTransitions(weights, validation_weights, parts, basis)


def store_estimate(context: StageContext, estimate: SampleTransitions) -> None:
    """Store the first rank's estimate; print its noise rate, how T(x) varies, and caveats."""
    context.ranks.from_first(estimate.tensors())
    context.outputs.estimate = estimate
    labels, prior = context.data.train_labels, estimate.class_prior
    if prior is None:
        # Anchors do not estimate the class prior; the shares of the noisy labels approximate it.
        prior = labels.bincount(minlength=context.data.n_classes)
    found = EstimatedTransition(
        parts=estimate.parts, class_prior=prior, n_samples=len(labels), weights=estimate.weights
    )
    context.log.detail(str(found.summary()))
