"""T(x) from the warmed-up network: parts, anchors, part transitions (Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ptd_ext.anchors import find_anchors
from ptd_ext.part_fit import fit_part_transitions
from ptd_ext.simplex_nmf import SimplexNMF
from ptd_ext.train.settings import Settings

if TYPE_CHECKING:
    from ptd_ext.train.run import Run

__all__ = ["estimate"]


def estimate(run: Run, settings: Settings) -> dict[str, Tensor]:
    """Weights of the training and validation samples, parts, and the basis they belong to."""
    posterior = run.kept["posterior"]
    network = run.networks[0]
    features = run.predict(network, "train", features=True).features
    held_out = run.predict(network, "validation", features=True).features
    found: dict[str, Tensor] = {}
    if settings.parts == 1:
        found["weights"] = posterior.new_ones(len(posterior), 1)
        found["validation_weights"] = posterior.new_ones(len(held_out), 1)
    else:
        nmf = SimplexNMF(settings.parts, max_iter=settings.nmf_turns, random_state=settings.seed)
        found["weights"] = nmf.fit_transform(features)
        found["validation_weights"] = nmf.transform(held_out)
        found["basis"] = torch.as_tensor(nmf.components_)
    anchors = find_anchors(
        posterior,
        rule=settings.anchor_rule,
        band=tuple(settings.anchor_band),
        count=settings.anchor_count,
    )
    fit = fit_part_transitions(
        found["weights"], posterior, anchors, ridge=settings.ridge if settings.parts > 1 else 0.0
    )
    found["parts"] = fit.parts.to(posterior.dtype)
    run.log.say(_anchor_line(anchors, run, fit))
    return found


def _anchor_line(anchors, run: Run, fit) -> str:
    counts = anchors.counts
    text = f"anchors: {min(counts)} to {max(counts)} of a class"
    clean = run.problem.train_clean
    if clean is not None:
        right = [
            (clean[ids] == label).double().mean().item() for label, ids in enumerate(anchors.ids)
        ]
        text += f", {sum(right) / len(right):.0%} of them truly of it"
    return text
