"""Noisy posteriors P(Ȳ | x): one or several combined, held in memory or read in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.nmf._data import open_rows
from ptd_ext.utils.ids import as_ids, as_rows, positions

__all__ = ["Posteriors", "combine_posteriors"]

_SUM_TOLERANCE = 1e-2  # of a row of bfloat16 probabilities over many classes
_BATCH_NUMBERS = 1 << 24
_FLOATING = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *map(np.dtype, ("float64", "float32", "float16")),
)


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


class Posteriors:
    """P(Ȳ | x) of N samples, checked as it is read, a batch at a time.

    From all that :func:`combine_posteriors` takes; and, without holding more than a batch, from a
    memory map, batches such as a DataLoader, or a function that returns an iterator of batches.

    Attributes:
        ids: of the samples, int64 [N].
        classes: C.
        dtype: that batches come in, float64 or float32.
    """

    def __init__(self, posteriors: Any, ids: Any = None) -> None:
        if not _is_stream(posteriors):
            if isinstance(posteriors, Sequence) or getattr(posteriors, "ndim", 2) != 2:
                posteriors, ids = combine_posteriors(posteriors, ids)
            posteriors = _with_classes(posteriors)
            batch = max(1, _BATCH_NUMBERS // posteriors.shape[1])
            self._rows = open_rows(posteriors, batch)
        else:
            self._rows = open_rows(posteriors)
            _check_classes(self._rows.features)
        self.classes, self.dtype = self._rows.features, self._rows.dtype
        self.ids = as_ids(ids, self._rows.count(), self._rows.device)

    def __len__(self) -> int:
        return len(self.ids)

    def columns(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the slice of the samples that a batch has, and its columns [C, n]."""
        for at, rows in self._rows.batches():
            columns = rows.T.contiguous()
            _check(columns, torch.arange(at.start, at.stop))
            yield at, columns

    def take(self, samples: Tensor) -> Tensor:
        """The posteriors of the samples at these positions, in any order, in float64."""
        rising, place = samples.unique(return_inverse=True)
        rows = self._rows.take(rising)
        _check(rows.T, rising)
        return rows.double()[place]


def _is_stream(posteriors: Any) -> bool:
    """True for batches of one posterior; a sequence is several posteriors."""
    if callable(posteriors) and not hasattr(posteriors, "ndim"):
        return True
    known = isinstance(posteriors, (Tensor, Sequence)) or hasattr(posteriors, "__array__")
    return isinstance(posteriors, Iterable) and not known


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
    _check_classes(posterior.shape[1])
    _check(posterior.T, torch.arange(len(posterior)))
    return posterior


def _with_classes(posterior: Any) -> Tensor | np.ndarray:
    """[N, C] as it is, if it has a shape and a type that posteriors can have."""
    if not isinstance(posterior, (Tensor, np.ndarray)):
        posterior = np.asarray(posterior)
    if posterior.ndim != 2:
        raise ValueError(f"posteriors must be [N, C]; got {list(posterior.shape)}.")
    if posterior.dtype not in _FLOATING:
        raise TypeError(f"posteriors must be floating-point; got {posterior.dtype}.")
    _check_classes(posterior.shape[1])
    return posterior


def _check_classes(classes: int) -> None:
    if classes < 2:
        raise ValueError(f"posteriors must have at least 2 classes; got {classes}.")


def _check(columns: Tensor, samples: Tensor) -> None:
    """Raise unless the columns [C, n] of these samples are probabilities."""
    if columns.numel() == 0:
        return
    if columns.dtype in (torch.float16, torch.bfloat16):
        columns = columns.float()
    sums, least = columns.sum(0), columns.amin(0)
    # A NaN or an infinity makes its sum, or the smallest entry, one too.
    good = ((sums - 1).abs() <= _SUM_TOLERANCE) & (least >= 0)
    if good.all():
        return
    row = int((~good).nonzero()[0, 0])
    sample, entries = int(samples[row]), columns[:, row]
    if not entries.isfinite().all():
        label = int((~entries.isfinite()).nonzero()[0, 0])
        raise ValueError(
            f"posteriors must be finite; posteriors[{sample}, {label}] is {entries[label].item()}."
        )
    raise ValueError(
        "posteriors must be probabilities, softmax(logits): every row not negative with sum 1; "
        f"row {sample} has minimum {least[row].item():.4g} and sum {sums[row].item():.4g}."
    )
