"""Evidence about the true class of a row: the labels of its nearest neighbours."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from ptd_ext.engine.model.chance import CLEARLY
from ptd_ext.transition.nearest import nearest_neighbours
from ptd_ext.transition.neighbours import NeighbourTransition, transition_of_neighbours

SMOOTHING = 0.02  # uniform share of a matrix whose logarithm is taken
TEMPERATURE = 0.2  # where the labels leave it open; below 1, since neighbours share their errors
_NEIGHBOURS = 6  # for the estimate of T
_BANDS = (0, 5, 10, 20)  # the nearest neighbours, the next and farther ones each have a weight


def neighbour_evidence(
    features: Tensor, codes: Tensor, n_classes: int
) -> tuple[Tensor, NeighbourTransition, str]:
    """Log-likelihoods of the labels of nearer and farther neighbours, [E, N, C]; their T."""
    near = nearest_neighbours(features, min(_BANDS[-1], len(features) - 1))
    k = min(_NEIGHBOURS, near.shape[1])
    found = transition_of_neighbours(codes, near[:, :k], n_classes)
    chance = float(((torch.bincount(codes).double() / len(codes)) ** 2).sum())
    needed = chance + CLEARLY * (chance * (1 - chance) / (len(codes) * k)) ** 0.5
    warning = ""
    if found.agreement <= needed:
        warning = (
            f"Neighbours in these features share a label in {found.agreement:.1%} of the cases, "
            f"no more than random rows ({chance:.1%}). No label is flagged. Try other features, "
            "such as embeddings by a network trained for this kind of data."
        )
    by_label = smoothed(found.transition).log().T.contiguous()  # [C given, C true]
    labels, bands = codes[near], []
    for first, last in itertools.pairwise(_BANDS):
        if first < near.shape[1]:
            ranks = labels[:, first:last].unbind(1)
            bands.append(sum((by_label[each] for each in ranks[1:]), by_label[ranks[0]]))
    return torch.stack(bands).double(), found, warning


def smoothed(matrix: Tensor) -> Tensor:
    """T without zeros, so that a single label rules out no class."""
    return torch.lerp(matrix, torch.full_like(matrix, 1 / len(matrix)), SMOOTHING)
