"""The start of running counts: a noise rate to hold, and rows of a matrix that can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ptd_ext.transition.anchors import class_transition, find_anchors
from ptd_ext.transition.posteriors import combine_posteriors
from ptd_ext.transition.summary import CLEAR
from ptd_ext.utils.ids import as_labels

__all__ = ["CountStart", "count_start", "trusted_base"]

_HALF = 0.49  # largest noise rate of two classes: at one half there is nothing to learn
_ANCHORS_SHARE = 0.5  # of the base, at most; the rest is uniform
# Anchors are mostly of their class at a rate of 0.4. At 0.5 many are of another class, and a base
# from them would start the counts with classes exchanged.
_TRUSTED, _DOUBTFUL = 0.4, 0.5
# Share of the labels missed on held-out data that the network knows by heart on training data. Its
# anchors say nothing any more when it knows nearly all.
_PARTLY, _BY_HEART = 0.6, 0.9


@dataclass(frozen=True)
class CountStart:
    """The result of :func:`count_start`.

    Attributes:
        noise_rate: to be held.
        base: off-diagonals to start from, [C, C].
        anchor_rate: the noise rate by the anchors alone.
        validation_error: the noise rate by the validation data alone.
    """

    noise_rate: float
    base: Tensor = field(repr=False)
    anchor_rate: float
    validation_error: float

    def __str__(self) -> str:
        return (
            f"noise rate held while counting: {self.noise_rate:.1%} "
            f"(anchors say {self.anchor_rate:.1%}, held-out labels at most "
            f"{self.validation_error:.1%})"
        )


def count_start(
    noisy_posterior: Any,
    noisy_labels: Any,
    validation_error: float,
    *,
    hold_error: bool = False,
    **anchors: Any,
) -> CountStart:
    """Noise rate and base for :class:`ptd_ext.TransitionEM`, by a network trained on noisy labels.

    Two estimates of the rate err on opposite sides. The error rate on held-out noisy labels counts
    the network's own mistakes as noise, and so is too high. The diagonal of the anchors' matrix
    comes from samples with a large posterior, which a network that memorises makes too large. The
    rate to hold is their mean. The base is half the anchors' matrix and half uniform; the more
    noise anchors find beyond 0.4, the more of it is uniform.

    Anchors of a network that knows the training labels by heart find no noise. Therefore they count
    less where it misses far fewer training than held-out labels, and not at all at a tenth.

    Args:
        noisy_posterior: P(Ȳ | x) of the training samples, [N, C], or several to be averaged, as
            :func:`ptd_ext.combine_posteriors` takes them.
        noisy_labels: ȳ of the training samples, [N].
        validation_error: the share of held-out noisy labels that the network misses.
        hold_error: hold that share itself.
        **anchors: options of :func:`ptd_ext.find_anchors`.
    """
    if not 0 <= validation_error <= 1:
        raise ValueError(f"validation_error must be from 0 to 1; got {validation_error}.")
    posterior, _ = combine_posteriors(noisy_posterior)
    labels, _ = as_labels(noisy_labels, posterior.shape[1])
    if len(labels) != len(posterior):
        raise ValueError(
            f"noisy_labels must be [{len(posterior)}], one per row of noisy_posterior; got "
            f"{list(labels.shape)}."
        )
    matrix = class_transition(posterior, find_anchors(posterior, **anchors)).float()
    shares = labels.bincount(minlength=len(matrix)).to(matrix) / len(labels)
    anchor_rate = ((1 - matrix.diagonal()) @ shares).clamp(0, 1).item()
    training_error = (posterior.argmax(1) != labels.to(posterior.device)).double().mean().item()
    by_heart = 1 - training_error / validation_error if validation_error else 1.0
    independent = min(max((_BY_HEART - by_heart) / (_BY_HEART - _PARTLY), 0.0), 1.0)
    rate = validation_error
    if not hold_error:
        rate -= independent * max(validation_error - anchor_rate, 0.0) / 2
    rate = min(rate, _HALF) if len(matrix) == 2 else rate
    trust = (_DOUBTFUL - anchor_rate) / (_DOUBTFUL - _TRUSTED)
    trust = independent * min(max(trust, 0.0), 1.0)
    base = trusted_base(matrix, share=_ANCHORS_SHARE * trust)
    return CountStart(rate, base, anchor_rate, validation_error)


def trusted_base(transition: Tensor, share: float = 1.0) -> Tensor:
    """Off-diagonal rows of T that can be trusted, [C, C]; the others are uniform.

    If another entry in the row or the column of a class is almost as large as its diagonal, one
    class may have been taken for another.

    Args:
        transition: T, [C, C].
        share: weight of the trusted rows; the rest is uniform.
    """
    wrong = transition.clone().fill_diagonal_(0.0)
    clear = transition.diagonal() > CLEAR * torch.maximum(wrong.amax(0), wrong.amax(1))
    uniform = torch.full_like(wrong, 1 / (len(wrong) - 1)).fill_diagonal_(0.0)
    sums = wrong.sum(1, keepdim=True)
    usable = clear[:, None] & (sums > 0)
    rows = torch.where(usable, wrong / sums.clamp(min=torch.finfo(wrong.dtype).tiny), uniform)
    return torch.lerp(uniform, rows, share)
