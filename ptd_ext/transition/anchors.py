"""Anchors: samples that almost certainly belong to a class, found by P(given label | x).

If P(Y = i | x) = 1, then P(Ȳ | x) is row i of T(x) (Eq. 3). Samples with a large P(Ȳ = i | x) come
closest. The samples with the very largest values are often outliers, so the default rule takes a
band of percentiles below them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ptd_ext.transition.estimate import EstimatedTransition
from ptd_ext.transition.pred_probs import PredProbs
from ptd_ext.utils.arguments import check_integer
from ptd_ext.utils.ids import positions

# Defaults, also of the settings: the percentiles, and the anchors per class, of the rule "band".
BAND, COUNT = (97.0, 99.0), 1000

_MAX_LEVELS = 1 << 20  # percentiles to choose an anchor at
_SPARE = 1.25  # candidates held, relative to those wanted, before the smallest are dropped


@dataclass(frozen=True)
class Anchors:
    """Anchors of C classes: `anchors[i]` are the ids of those of class i.

    Attributes:
        ids: for every class an int64 tensor of sample ids, by rising P(Ȳ = i | x).
        rule: the rule that chose them.
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


def find_anchors(
    pred_probs: Any,
    *,
    ids: Any = None,
    rule: Literal["band", "percentile", "argmax"] = "band",
    band: tuple[float, float] = BAND,
    count: int | None = None,
) -> Anchors:
    """Find, for every class i, samples whose P(Ȳ = i | x) is large; returns their ids.

    Neither the order of the samples nor ties change what is found.

    Args:
        pred_probs: P(Ȳ | x), as :func:`combine_pred_probs` takes it: one [N, C], several to be
            averaged, or (ids, probabilities) pairs of cross-fitting folds. It may be larger than
            memory: a memory map [N, C], batches such as a DataLoader, or a function that returns an
            iterator of batches. Then only one batch is held at a time, and for each class the
            samples above the percentile band[0].
        ids: ids of the N samples; by default 0 … N−1.
        rule: how to choose the anchors of class i.

            * "band": those between the percentiles `band` of P(Ȳ = i | x); if they are more than
              `count`, evenly spread over the band;
            * "percentile": the paper's rule, one just below each of `count` percentiles from
              band[0] to band[1]; give the number of parts as `count`;
            * "argmax": the `count` largest.
        band: percentiles of the rules "band" and "percentile".
        count: maximum number per class; by default 1,000 for "band" and 1 for "argmax".

    Examples:
        >>> pred_probs = torch.rand(500, 3, generator=torch.Generator().manual_seed(0)).softmax(1)
        >>> anchors = ptd_ext.find_anchors(pred_probs)
        >>> len(anchors.ids)  # one tensor of positions for each class
        3
    """
    if rule not in ("band", "percentile", "argmax"):
        raise ValueError(f'rule must be "band", "percentile" or "argmax"; got {rule!r}.')
    low, high = band if len(band) == 2 else (math.nan, math.nan)
    if not 0 <= low <= high <= 100:
        raise ValueError(f"band must be two rising percentiles from 0 to 100; got {band}.")
    if count is None:
        if rule == "percentile":
            raise ValueError(
                'count must be given with rule="percentile": one anchor per part is usual.'
            )
        count = COUNT if rule == "band" else 1
    count = check_integer(count, "count", maximum=_MAX_LEVELS if rule == "percentile" else None)
    rows = PredProbs(pred_probs, ids)
    if len(rows) == 0:
        raise ValueError("pred_probs must have at least one sample; got none.")
    ids = rows.ids
    ranks = _ranks(rule, low / 100, high / 100, count, len(ids)).to(ids.device)
    size = len(ids) - int(ranks[0])
    largest = [_Largest(size, ids) for _ in range(rows.n_classes)]
    for at, columns in rows.columns():
        samples = torch.arange(at.start, at.stop, dtype=torch.int32, device=columns.device)
        for label, column in enumerate(columns):
            largest[label].add(column, samples)
    return Anchors(tuple(ids[each.rising()[ranks - ranks[0]].long()] for each in largest), rule)


def class_transition(
    pred_probs: Any, anchors: Anchors | Sequence[Any], *, ids: Any = None
) -> EstimatedTransition:
    """The class-dependent T (Eq. 3): row i is the mean of P(Ȳ | x) over the anchors of class i.

    Anchors do not estimate the class prior; `class_prior` is the mean of P(Ȳ | x) instead.

    Args:
        pred_probs: as in :func:`find_anchors`.
        anchors: from :func:`find_anchors`, or for every class the ids of its anchors.
        ids: ids of the N samples; by default 0 … N−1.

    Examples:
        >>> pred_probs = torch.rand(500, 3, generator=torch.Generator().manual_seed(0)).softmax(1)
        >>> anchors = ptd_ext.find_anchors(pred_probs)
        >>> found = ptd_ext.transition.class_transition(pred_probs, anchors)
        >>> found.transition.shape
        torch.Size([3, 3])
    """
    rows = PredProbs(pred_probs, ids)
    indices = anchor_positions(anchors, rows.ids, rows.n_classes)
    transition = torch.stack([rows.take(each).mean(0) for each in indices]).to(rows.dtype)
    return EstimatedTransition.one_matrix(transition, rows.mean(), len(rows))


def anchor_positions(anchors: Anchors | Sequence[Any], ids: Tensor, n_classes: int) -> list[Tensor]:
    """Return the indices in `ids` of every class's anchors."""
    if len(anchors) != n_classes:
        raise ValueError(f"anchors must be given for all {n_classes} classes; got {len(anchors)}.")
    wanted = [torch.as_tensor(anchors[label], device=ids.device) for label in range(n_classes)]
    counts = [len(each) for each in wanted]
    if 0 in counts:
        raise ValueError(
            f"anchors must not be empty for any class; class {counts.index(0)} has none."
        )
    return list(positions(torch.cat(wanted), ids, "anchors").split(counts))


def _ranks(rule: str, low: float, high: float, count: int, samples: int) -> Tensor:
    """The ranks, 0 … N−1, of the anchors among all samples sorted by rising posterior."""
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


class _Largest:
    """The `size` largest of all values that were added, ties by id, and the samples they are of."""

    def __init__(self, size: int, ids: Tensor) -> None:
        self._size, self._ids = size, ids
        self._values: list[Tensor] = []
        self._samples: list[Tensor] = []
        self._held = 0
        self._threshold = -math.inf  # smaller values cannot be among the largest

    def add(self, values: Tensor, samples: Tensor) -> None:
        """Add the values [n] of the samples at these positions."""
        if self._threshold > -math.inf:
            kept = (values >= self._threshold).nonzero()[:, 0]
            values, samples = values[kept], samples[kept]
        self._values.append(values)
        self._samples.append(samples)
        self._held += len(values)
        if self._held > _SPARE * self._size:
            self._drop()
        elif self._threshold == -math.inf:
            self._values[-1] = values.clone()  # a view would keep its batch alive

    def rising(self) -> Tensor:
        """Return the positions of the samples, by rising value and id."""
        self._drop()
        return self._samples[0]

    def _drop(self) -> None:
        values, samples = torch.cat(self._values), torch.cat(self._samples)
        by_id = self._ids[samples].argsort()
        kept = by_id[values[by_id].argsort(stable=True)][-self._size :]
        values, samples = values[kept], samples[kept]
        if len(values) == self._size:
            self._threshold = values[0].item()
        self._values, self._samples, self._held = [values], [samples], len(values)
