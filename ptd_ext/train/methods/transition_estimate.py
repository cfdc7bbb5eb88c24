"""T(x) from the warmed-up network: parts, anchors, part transitions (Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ptd_ext.nmf.estimator import SimplexNMF
from ptd_ext.train.config.settings import Settings
from ptd_ext.transition.anchors import Anchors, find_anchors
from ptd_ext.transition.fit import fit_part_transitions

if TYPE_CHECKING:
    from ptd_ext.train.engine.trainer import Run

__all__ = ["estimate"]


def estimate(run: Run, settings: Settings) -> dict[str, Tensor]:
    """Weights of the training and validation samples, parts, and the basis they belong to."""
    posterior = run.kept["posterior"]
    network = run.networks[0]
    run.keep_file("warm_up.pt", network.state_dict())
    found: dict[str, Tensor] = {}
    if settings.parts == 1:
        found["weights"] = posterior.new_ones(len(posterior), 1)
        found["validation_weights"] = posterior.new_ones(len(run.problem.validation), 1)
    else:
        features = run.predict(network, "train", features=True).features
        held_out = run.predict(network, "validation", features=True).features
        nmf = SimplexNMF(settings.parts, max_iter=settings.nmf_turns, random_state=settings.seed)
        found["weights"] = nmf.fit_transform(features)
        if nmf.interrupted_:
            raise KeyboardInterrupt
        found["validation_weights"] = nmf.transform(held_out)
        found["basis"] = torch.as_tensor(nmf.components_)
    anchors = find_anchors(
        posterior,
        rule=settings.anchor_rule,
        band=tuple(settings.anchor_band),
        count=settings.anchor_count,
    )
    fit = fit_part_transitions(found["weights"], posterior, anchors, ridge=settings.ridge)
    found["parts"] = fit.parts.to(posterior.dtype)
    run.ranks.from_first(found.values())
    run.log.say(_anchor_line(anchors, run.problem.train_clean))
    return found


def _anchor_line(anchors: Anchors, clean: Tensor | None) -> str:
    counts = anchors.counts
    text = f"anchors: {min(counts)} to {max(counts)} of a class"
    if clean is not None:
        right = [
            (clean[ids] == label).double().mean().item() for label, ids in enumerate(anchors.ids)
        ]
        text += f", {sum(right) / len(right):.0%} of them truly of it"
    return text
