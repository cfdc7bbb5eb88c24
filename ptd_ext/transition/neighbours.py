"""A transition matrix from the labels of neighbours, without a network and in seconds.

In good features the nearest neighbours of a sample mostly share its clean class. Its own label and
theirs are then k + 1 draws from one row of T, and a mixture of C multinomials has T as its
components and the class prior as its weights. EM finds both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ptd_ext.transition.count_start import trusted_base
from ptd_ext.transition.nearest import nearest_neighbours
from ptd_ext.transition.summary import TransitionSummary, summarise
from ptd_ext.utils.arguments import whole_number
from ptd_ext.utils.ids import as_labels, as_rows

__all__ = ["NeighbourTransition", "neighbour_transition"]

_START = 0.5  # the diagonal at first, of three classes and more
_SMALLEST = 1e-12  # of a probability whose logarithm is taken, and of a sum that is divided by
_SETTLED = 1e-6  # the largest change of an entry of T at which EM ends
_BLOCK = 1 << 18  # samples at once


@dataclass(frozen=True)
class NeighbourTransition:
    """The result of :func:`neighbour_transition`.

    Attributes:
        transition: T, [C, C].
        class_prior: shares of the clean classes, [C].
        noise_rate: the share of wrong labels, Σ prior_i · (1 − T_ii).
        posterior: P(Y | labels of the sample and its neighbours), [N, C].
        agreement: the share of neighbours that carry the sample's own label.
        iterations: of EM.
    """

    transition: Tensor
    class_prior: Tensor = field(repr=False)
    noise_rate: float
    posterior: Tensor = field(repr=False)
    agreement: float
    iterations: int

    def base(self) -> Tensor:
        """Off-diagonals as `base` of `TransitionEM`: rows not to be trusted are uniform."""
        return trusted_base(self.transition)

    def summary(self) -> TransitionSummary:
        """The noise rate, the diagonal, and how far to trust them."""
        return summarise(self.transition[None], self.class_prior, len(self.posterior))


def neighbour_transition(
    features: Any,
    noisy_labels: Any,
    k: int = 4,
    *,
    classes: int | None = None,
    iterations: int = 200,
) -> NeighbourTransition:
    r"""T, the class prior and a posterior per sample, from the labels of nearest neighbours.

    With countᵢ the histogram of the labels of sample i and of its k neighbours, EM repeats::

        q = rowsoftmax(log p + count · log Tᵀ);   T = rownorm(qᵀ count);   p = mean q

    It is right where neighbours share their clean class: in features that tell classes apart, such
    as those of a network trained on other data. Neighbours of another class look like noise, so
    that the rate comes out too high rather than too low.

    Args:
        features: [N, D]; neighbours are found by cosine, exactly.
        noisy_labels: [N].
        k: neighbours of a sample, less than N.
        classes: C; by default the largest label plus one.
        iterations: of EM, at most.
    """
    features = as_rows(features, "features", "D")
    labels, classes = as_labels(noisy_labels, classes)
    if len(labels) != len(features):
        raise ValueError(
            f"noisy_labels must be [{len(features)}], one per sample; got {list(labels.shape)}."
        )
    iterations = whole_number(iterations, "iterations", least=0)
    if not 1 <= whole_number(k, "k") < len(features):
        raise ValueError(
            f"k must be at least 1 and less than the {len(features)} samples; got {k}."
        )
    labels = labels.to(features.device)
    near = labels[nearest_neighbours(features, k)]  # [N, k]
    agreement = (near == labels[:, None]).double().mean().item()
    count = torch.zeros(len(labels), classes, device=features.device)
    drawn = torch.cat([labels[:, None], near], 1)
    count.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=count.dtype))

    # More than 1 / C, as EM would never leave a matrix whose rows are alike.
    diagonal = max(_START, 1.5 / classes)
    transition = torch.full((classes, classes), (1 - diagonal) / (classes - 1)).double()
    transition = transition.fill_diagonal_(diagonal).to(features.device)
    prior = labels.bincount(minlength=classes).double() / len(labels)
    done = 0
    for done in range(1, iterations + 1):  # noqa: B007 (told in the result)
        sums, shares = torch.zeros_like(transition), torch.zeros_like(prior)
        for part in count.split(_BLOCK):
            q = _posterior(part, transition, prior)
            sums += (q.T @ part).double()
            shares += q.sum(0).double()
        rows = sums.sum(1, keepdim=True)
        # A class without samples, or with next to none, keeps its row.
        found = torch.where(rows >= _SMALLEST, sums / rows.clamp(min=_SMALLEST), transition)
        change = (found - transition).abs().max()
        transition, prior = found, shares / shares.sum()
        if change < _SETTLED:
            break
    posterior = torch.cat([_posterior(part, transition, prior) for part in count.split(_BLOCK)])
    rate = (prior * (1 - transition.diagonal())).sum().clamp(0, 1).item()
    return NeighbourTransition(transition.float(), prior.float(), rate, posterior, agreement, done)


def _posterior(count: Tensor, transition: Tensor, prior: Tensor) -> Tensor:
    log_rows = transition.clamp(min=_SMALLEST).log().to(count.dtype)
    log_prior = prior.clamp(min=_SMALLEST).log().to(count.dtype)
    return torch.addmm(log_prior, count, log_rows.T).softmax(1)
