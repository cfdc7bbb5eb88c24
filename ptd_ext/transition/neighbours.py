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

from ptd_ext.transition.estimate import EstimatedTransition
from ptd_ext.transition.nearest import nearest_neighbours
from ptd_ext.utils.arguments import check_integer, check_nonnegative, check_same_index
from ptd_ext.utils.ids import as_labels, as_rows

_START = 0.5  # the diagonal at first, of three classes and more
_SMALLEST = 1e-12  # smallest argument of a logarithm, and smallest divisor
_BLOCK = 1 << 18  # samples at once


@dataclass(frozen=True, kw_only=True)
class NeighbourTransition(EstimatedTransition):
    """The result of :func:`neighbour_transition`: an :class:`EstimatedTransition` of one matrix.

    Attributes:
        posterior: P(true label | labels of the sample and of its neighbours), [N, C].
        agreement: the share of neighbours that carry the sample's own label.
        n_iter: EM iterations run.
    """

    posterior: Tensor = field(repr=False, metadata={"shape": "NC"})
    agreement: float
    n_iter: int


def neighbour_transition(
    features: Any,
    noisy_labels: Any,
    k: int = 4,
    *,
    n_classes: int | None = None,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> NeighbourTransition:
    r"""T, the class prior and a posterior per sample, from the labels of nearest neighbours.

    With countᵢ the histogram of the labels of sample i and of its k neighbours, EM repeats::

        q = rowsoftmax(log p + count · log Tᵀ);   T = rownorm(qᵀ count);   p = mean q

    The estimate is accurate where neighbours share their true class: in features that separate the
    classes, such as those of a network trained on other data. Neighbours of another class look like
    noise, so that the estimated rate is too high rather than too low.

    Args:
        features: [N, D]; neighbours are found by cosine, up to 100,000 samples exactly. More are
            divided into √N cells by k-means, and a sample has its neighbours in the 16 cells
            nearest to it.
        noisy_labels: [N].
        k: number of neighbours of a sample, less than N.
        n_classes: C; by default the largest label plus one.
        max_iter: maximum number of EM iterations.
        tol: EM ends when no entry of T changes by this much.

    Examples:
        >>> generator = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(300) % 3
        >>> features = torch.randn(300, 4, generator=generator) + 5 * torch.eye(3, 4)[labels]
        >>> found = ptd_ext.transition.neighbour_transition(features, labels)
        >>> found.transition.shape, found.noise_rate < 0.1
        (torch.Size([3, 3]), True)
    """
    check_same_index(features=features, noisy_labels=noisy_labels)
    features = as_rows(features, "features", "D")
    labels, n_classes = as_labels(noisy_labels, n_classes)
    if len(labels) != len(features):
        raise ValueError(
            f"noisy_labels must be [{len(features)}], one per sample; got {list(labels.shape)}."
        )
    max_iter = check_integer(max_iter, "max_iter", minimum=0)
    tol = check_nonnegative(tol, "tol")
    if not 1 <= check_integer(k, "k") < len(features):
        raise ValueError(
            f"k must be at least 1 and less than the {len(features)} samples; got {k}."
        )
    near = nearest_neighbours(features, k)
    return transition_of_neighbours(
        labels.to(features.device), near, n_classes, max_iter=max_iter, tol=tol
    )


def transition_of_neighbours(
    labels: Tensor, near: Tensor, n_classes: int, *, max_iter: int = 200, tol: float = 1e-6
) -> NeighbourTransition:
    """As :func:`neighbour_transition`, with labels [N] and the positions of neighbours [N, k]."""
    near = labels[near]
    agreement = (near == labels[:, None]).double().mean().item()
    count = torch.zeros(len(labels), n_classes, device=labels.device)
    drawn = torch.cat([labels[:, None], near], 1)
    count.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=count.dtype))

    # More than 1 / C, as EM would never leave a matrix whose rows are alike.
    diagonal = max(_START, 1.5 / n_classes)
    transition = torch.full((n_classes, n_classes), (1 - diagonal) / (n_classes - 1)).double()
    transition = transition.fill_diagonal_(diagonal).to(labels.device)
    prior = labels.bincount(minlength=n_classes).double() / len(labels)
    done = 0
    for done in range(1, max_iter + 1):  # noqa: B007 (part of the result)
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
        if change < tol:
            break
    posterior = torch.cat([_posterior(part, transition, prior) for part in count.split(_BLOCK)])
    return NeighbourTransition(
        parts=transition.float()[None],
        class_prior=prior.float(),
        n_samples=len(labels),
        posterior=posterior,
        agreement=agreement,
        n_iter=done,
    )


def _posterior(count: Tensor, transition: Tensor, prior: Tensor) -> Tensor:
    log_rows = transition.clamp(min=_SMALLEST).log().to(count.dtype)
    log_prior = prior.clamp(min=_SMALLEST).log().to(count.dtype)
    return torch.addmm(log_prior, count, log_rows.T).softmax(1)
