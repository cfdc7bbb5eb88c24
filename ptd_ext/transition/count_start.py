"""The start of running counts: a noise rate to hold, and rows of a matrix that can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ptd_ext.transition.anchors import class_transition, find_anchors
from ptd_ext.transition.estimate import trusted_base
from ptd_ext.transition.pred_probs import combine_pred_probs
from ptd_ext.utils.arguments import check_same_index, check_share
from ptd_ext.utils.ids import as_labels

_HALF = 0.49  # largest noise rate of two classes: at one half there is nothing to learn
_ANCHORS_SHARE = 0.5  # maximum share of the anchors' matrix in the base; the rest is uniform
# Anchors are mostly of their class at a rate of 0.4. At 0.5 many are of another class, and a base
# from them would start the counts with classes exchanged.
_TRUSTED, _DOUBTFUL = 0.4, 0.5
# Share of the labels missed on held-out data that the network knows by heart on training data. A
# network that knows nearly all of them has uninformative anchors.
_PARTLY, _BY_HEART = 0.6, 0.9


@dataclass(frozen=True)
class CountStart:
    """The result of :func:`count_start`.

    Attributes:
        noise_rate: the rate to hold.
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
            f"(anchors: {self.anchor_rate:.1%}, held-out labels: at most "
            f"{self.validation_error:.1%})"
        )


def count_start(
    pred_probs: Any,
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
        pred_probs: P(Ȳ | x) of the training samples, [N, C], or several to be averaged, as
            :func:`ptd_ext.transition.combine_pred_probs` takes them.
        noisy_labels: ȳ of the training samples, [N].
        validation_error: the share of held-out noisy labels that the network misses.
        hold_error: hold that share itself.
        **anchors: options of :func:`ptd_ext.find_anchors`.
    """
    validation_error = check_share(validation_error, "validation_error")
    check_same_index(pred_probs=pred_probs, noisy_labels=noisy_labels)
    pred_probs, _ = combine_pred_probs(pred_probs)
    labels, _ = as_labels(noisy_labels, pred_probs.shape[1])
    if len(labels) != len(pred_probs):
        raise ValueError(
            f"noisy_labels must be [{len(pred_probs)}], one per row of pred_probs; got "
            f"{list(labels.shape)}."
        )
    found = class_transition(pred_probs, find_anchors(pred_probs, **anchors))
    matrix = found.transition.float()
    shares = labels.bincount(minlength=len(matrix)).to(matrix) / len(labels)
    anchor_rate = ((1 - matrix.diagonal()) @ shares).clamp(0, 1).item()
    training_error = (pred_probs.argmax(1) != labels.to(pred_probs.device)).double().mean().item()
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
