"""A few words on an estimated T(x): how much noise, how it varies, how far to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["CLEAR", "TransitionSummary", "summarise"]

CLEAR = 1.2  # times the largest other entry: below it a diagonal says little
_FEW = 100  # samples that a row of T can be estimated from
_LEVEL = 0.02  # of the L1 distance of rows: below it T(x) is one matrix


@dataclass(frozen=True)
class TransitionSummary:
    """The noise that an estimate finds.

    Attributes:
        noise_rate: the share of wrong labels, Σ prior_i · (1 − mean T_ii).
        diagonal: of the mean T(x), [C].
        class_prior: shares of the clean classes, [C].
        variation: how far T(x) varies, from 0 to 2: the L1 distance between a row of T(x) and its
            mean over samples, averaged over samples, and over rows by the prior.
        doubts: sentences on what not to trust.
    """

    noise_rate: float
    diagonal: Tensor
    class_prior: Tensor
    variation: float
    doubts: tuple[str, ...]

    def __str__(self) -> str:
        low, high = self.diagonal.min().item(), self.diagonal.max().item()
        varies = "one matrix for all samples"
        if self.variation >= _LEVEL:
            varies = f"rows vary by {self.variation:.2f} between samples"
        rate = f"{self.noise_rate:.1%} of labels wrong"
        text = f"T(x): {rate}, diagonal {low:.2f} to {high:.2f}, {varies}"
        return "\n".join([text, *(f"  doubtful: {doubt}" for doubt in self.doubts)])


@torch.no_grad()
def summarise(
    parts: Tensor,
    class_prior: Tensor,
    samples: int,
    weights: Tensor | None = None,
    *,
    names: Sequence[str] | None = None,
) -> TransitionSummary:
    """Summarise T(x) = Σⱼ hⱼ Pʲ, or without weights the one matrix that `parts` holds.

    Args:
        parts: P, [R, C, C].
        class_prior: shares of the clean classes, [C].
        samples: how many the estimate comes from.
        weights: h(x), [N, R], or some rows of it.
        names: names of the classes for the sentences; class indices by default.
    """
    parts, prior = parts.double(), class_prior.double() / class_prior.double().sum()
    mean, variation = parts.mean(0), 0.0
    if weights is not None and len(parts) > 1:
        weights = weights[:: max(1, len(weights) // 2000)].double()
        mean = torch.tensordot(weights.mean(0), parts, dims=1)
        rows = torch.tensordot(weights, parts, dims=1)
        variation = ((rows - mean).abs().sum(-1) @ prior).mean().item()
    diagonal = mean.diagonal()
    other = mean.clone().fill_diagonal_(0.0).amax(1)
    doubts = []
    for label in range(len(prior)):
        count, name = prior[label].item() * samples, names[label] if names else label
        if count < 0.5:
            doubts.append(f"class {name} has no samples, so that its row is a guess.")
        elif count < _FEW:
            doubts.append(f"row {name} of T(x) rests on about {count:.0f} samples.")
        if count >= 0.5 and diagonal[label] < CLEAR * other[label]:
            wrong = int(mean[label].clone().index_fill_(0, torch.tensor(label), 0.0).argmax())
            doubts.append(
                f"class {name} is said to be labelled {names[wrong] if names else wrong} almost as "
                f"often as {name} "
                f"({other[label]:.2f} and {diagonal[label]:.2f}); the two may be confused."
            )
    rate = (prior * (1 - diagonal)).sum().clamp(0, 1).item()
    return TransitionSummary(rate, diagonal.float(), prior.float(), variation, tuple(doubts))
