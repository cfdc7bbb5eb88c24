"""Anchors: samples that almost certainly belong to a class, found in the noisy posterior.

Where P(Y = i | x) = 1, the noisy posterior P(Ȳ | x) is row i of T(x) (Eq. 3). Of the samples at
hand, those with a large P(Ȳ = i | x) come nearest to that; the very largest are often outliers, so
the default rule takes a band of percentiles below them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ptd_ext.utils.ids import as_ids, as_rows, positions

__all__ = ["Anchors", "class_transition", "combine_posteriors", "find_anchors"]

_SUM_TOLERANCE = 1e-2  # of a row of bfloat16 probabilities over many classes


@dataclass(frozen=True)
class Anchors:
    """Anchors of C classes: `anchors[i]` are the ids of those of class i.

    Attributes:
        ids: for every class an int64 tensor of sample ids, by rising noisy posterior.
        rule: how they were chosen.
    """

    ids: tuple[Tensor, ...] = field(repr=False)
    rule: str

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, label: int) -> Tensor:
        return self.ids[label]

    @property
    def counts(self) -> list[int]:
        """The number of anchors of every class."""
        return [len(ids) for ids in self.ids]


def combine_posteriors(posteriors: Any, ids: Any = None) -> tuple[Tensor, Tensor]:
    """One posterior per sample from one or several: (posterior [N, C], ids [N]).

    Args:
        posteriors: probabilities, as one of

            * [N, C]: one posterior;
            * [E, N, C] or a sequence of [N, C]: of several epochs or networks, averaged;
            * a sequence of pairs (ids, posterior): of several folds, each scored by a network that
              did not train on it. A sample in several folds gets their average.
        ids: of the N samples; by default 0 … N−1 or, for pairs, all their ids in rising order. For
            pairs they choose and order the samples.
    """
    if _is_pairs(posteriors):
        return _from_folds(posteriors, ids)
    if isinstance(posteriors, Sequence) or (hasattr(posteriors, "ndim") and posteriors.ndim == 3):
        total, count = None, 0
        for posterior in posteriors:
            posterior = _checked(posterior).double()
            if total is not None and posterior.shape != total.shape:
                raise ValueError(
                    f"posteriors must have one shape to be averaged, {list(total.shape)}; "
                    f"number {count} is {list(posterior.shape)}."
                )
            total = posterior.clone() if total is None else total.add_(posterior)
            count += 1
        if total is None:
            raise ValueError("posteriors must not be an empty sequence.")
        posterior = total / count
    else:
        posterior = _checked(posteriors)
    return posterior, as_ids(ids, len(posterior), posterior.device)


def find_anchors(
    noisy_posterior: Any,
    *,
    ids: Any = None,
    rule: Literal["band", "percentile", "argmax"] = "band",
    band: tuple[float, float] = (97.0, 99.0),
    count: int | None = None,
) -> Anchors:
    """For every class i, samples whose P(Ȳ = i | x) is large; their ids, never their positions.

    Neither the order of the samples nor ties change what is found.

    Args:
        noisy_posterior: P(Ȳ | x), as :func:`combine_posteriors` takes it: one [N, C], several to be
            averaged, or (ids, posterior) pairs of cross-fitting folds.
        ids: of the N samples; by default 0 … N−1.
        rule: how to choose the anchors of class i.

            * "band": those between the percentiles `band` of P(Ȳ = i | x); if they are more than
              `count`, evenly spread over the band;
            * "percentile": the paper's rule, one just below each of `count` percentiles from
              band[0] to band[1]; give the number of parts as `count`;
            * "argmax": the `count` largest.
        band: percentiles of the rules "band" and "percentile".
        count: at most so many per class; by default 1,000 for "band" and 1 for "argmax".
    """
    if rule not in ("band", "percentile", "argmax"):
        raise ValueError(f'rule must be "band", "percentile" or "argmax"; got {rule!r}.')
    low, high = band
    if not 0 <= low <= high <= 100:
        raise ValueError(f"band must be two rising percentiles from 0 to 100; got {band}.")
    if count is None:
        if rule == "percentile":
            raise ValueError(
                'count must be given with rule="percentile": one anchor per part is usual.'
            )
        count = 1000 if rule == "band" else 1
    if count < 1:
        raise ValueError(f"count must be at least 1; got {count}.")
    posterior, ids = combine_posteriors(noisy_posterior, ids)
    samples = len(ids)
    if samples == 0:
        raise ValueError("noisy_posterior must have at least one sample; got none.")
    ids, by_id = ids.sort()
    ranks = _ranks(rule, low / 100, high / 100, count, samples).to(ids.device)
    # Stable, and over rising ids: equal posteriors are ordered by id.
    columns = (posterior[by_id, label] for label in range(posterior.shape[1]))
    return Anchors(tuple(ids[column.argsort(stable=True)[ranks]] for column in columns), rule)


def class_transition(
    noisy_posterior: Any, anchors: Anchors | Sequence[Any], *, ids: Any = None
) -> Tensor:
    """The class-dependent T [C, C] (Eq. 3): row i is the mean noisy posterior of i's anchors.

    Args:
        noisy_posterior: as in :func:`find_anchors`.
        anchors: from :func:`find_anchors`, or for every class the ids of its anchors.
        ids: of the N samples; by default 0 … N−1.
    """
    posterior, ids = combine_posteriors(noisy_posterior, ids)
    rows = anchor_positions(anchors, ids, posterior.shape[1])
    return torch.stack([posterior[row].double().mean(0) for row in rows]).to(posterior.dtype)


def anchor_positions(anchors: Anchors | Sequence[Any], ids: Tensor, classes: int) -> list[Tensor]:
    """Where in `ids` the anchors of every class stand."""
    if len(anchors) != classes:
        raise ValueError(f"anchors must be given for all {classes} classes; got {len(anchors)}.")
    found = []
    for label in range(classes):
        wanted = torch.as_tensor(anchors[label], device=ids.device)
        if len(wanted) == 0:
            raise ValueError(f"anchors must not be empty for any class; class {label} has none.")
        found.append(positions(wanted, ids, f"anchors[{label}]"))
    return found


def _ranks(rule: str, low: float, high: float, count: int, samples: int) -> Tensor:
    """Of the anchors among all samples by rising posterior, 0 … N−1."""
    last = samples - 1
    if rule == "argmax":
        return torch.arange(max(samples - count, 0), samples)
    if rule == "percentile":
        levels = torch.linspace(low, high, count, dtype=torch.float64)
        # Just below the first sample that is not below the percentile; few samples fall together.
        return ((levels * last).ceil().long() - 1).clamp(min=0).unique()
    first = math.ceil(low * last)
    width = max(math.floor(high * last) - first, 0)
    if width < count:
        return torch.arange(first, first + width + 1)
    return first + torch.linspace(0, width, count, dtype=torch.float64).round().long()


def _is_pairs(posteriors: Any) -> bool:
    return (
        isinstance(posteriors, Sequence)
        and len(posteriors) > 0
        and all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in posteriors)
        and all(torch.as_tensor(first).dim() == 1 for first, _ in posteriors)
    )


def _from_folds(folds: Sequence[tuple[Any, Any]], ids: Any) -> tuple[Tensor, Tensor]:
    scored = [_checked(posterior) for _, posterior in folds]
    device = scored[0].device
    named = [
        as_ids(fold_ids, len(posterior), device)
        for (fold_ids, _), posterior in zip(folds, scored, strict=True)
    ]
    if len({posterior.shape[1] for posterior in scored}) > 1:
        shapes = ", ".join(str(list(posterior.shape)) for posterior in scored)
        raise ValueError(f"posteriors of all folds must have the same classes; got {shapes}.")
    known, place, times = torch.cat(named).unique(return_inverse=True, return_counts=True)
    total = torch.zeros(len(known), scored[0].shape[1], dtype=torch.float64, device=device)
    total.index_add_(0, place, torch.cat(scored).double())
    posterior = total / times[:, None]
    if ids is None:
        return posterior, known
    ids = as_ids(ids, len(torch.as_tensor(ids)), device)
    return posterior[positions(ids, known, "ids")], ids


def _checked(posterior: Any) -> Tensor:
    """[N, C] probabilities, the rows of which sum to one."""
    posterior = as_rows(posterior, "posteriors")
    if posterior.shape[1] < 2:
        raise ValueError(f"posteriors must have at least 2 classes; got {posterior.shape[1]}.")
    sums = posterior.double().sum(1)
    bad = ((sums - 1).abs() > _SUM_TOLERANCE) | (posterior < 0).any(1)
    if bad.any():
        row = int(bad.nonzero()[0, 0])
        raise ValueError(
            "posteriors must be probabilities, softmax(logits): every row not negative with sum "
            f"1; row {row} has minimum {posterior[row].min().item():.4g} and sum "
            f"{sums[row].item():.4g}."
        )
    return posterior
