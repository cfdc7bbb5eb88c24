"""Probabilities P(Ȳ | x): one or several combined, held in memory or read in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.nmf._data import open_rows
from ptd_ext.utils.ids import as_ids, as_rows, positions

_SUM_TOLERANCE = 1e-2  # for rows of bfloat16 probabilities over many classes
_BATCH_NUMBERS = 1 << 24
_MEAN_NUMBERS = 1 << 20  # a mean over more samples would not be more useful
_FLOATING = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *map(np.dtype, ("float64", "float32", "float16")),
)


def combine_pred_probs(pred_probs: Any, ids: Any = None) -> tuple[Tensor, Tensor]:
    """Combine one or several sets of P(given label | x): (pred_probs [N, C], ids [N]).

    Args:
        pred_probs: probabilities, as one of

            * [N, C]: one set;
            * [E, N, C] or a sequence of [N, C]: several epochs or networks, averaged;
            * a sequence of pairs (ids, probabilities): several folds, each scored by a network that
              did not train on it. A sample in several folds gets their average.
        ids: ids of the N samples; by default 0 … N−1 or, for pairs, all their ids in rising order.
            For pairs they choose and order the samples.

    Examples:
        >>> epochs = [torch.tensor([[0.9, 0.1]]), torch.tensor([[0.7, 0.3]])]
        >>> ptd_ext.transition.combine_pred_probs(epochs)
        (tensor([[0.8000, 0.2000]], dtype=torch.float64), tensor([0]))
    """
    return combine(pred_probs, ids, "pred_probs")


def combine(pred_probs: Any, ids: Any, name: str) -> tuple[Tensor, Tensor]:
    """As :func:`combine_pred_probs`; error messages call the argument `name`."""
    if _is_pairs(pred_probs):
        return _from_folds(pred_probs, ids, name)
    if isinstance(pred_probs, Sequence) or (hasattr(pred_probs, "ndim") and pred_probs.ndim == 3):
        sets = [_checked(each, name) for each in pred_probs]
        if not sets:
            raise ValueError(f"{name} must not be an empty sequence.")
        if len({each.shape for each in sets}) > 1:
            shapes = ", ".join(str(list(each.shape)) for each in sets)
            raise ValueError(f"{name} must have the same shape to be averaged; got {shapes}.")
        posterior = torch.zeros_like(sets[0], dtype=torch.float64)
        for each in sets:
            posterior += each
        posterior /= len(sets)
    else:
        posterior = _checked(pred_probs, name)
    return posterior, as_ids(ids, len(posterior), posterior.device)


class PredProbs:
    """P(Ȳ | x) of N samples, checked as it is read, a batch at a time.

    The source is anything that :func:`combine_pred_probs` takes. A memory map, batches such as a
    DataLoader, or a function that returns an iterator of batches are read one batch at a time.

    Attributes:
        ids: ids of the samples, int64 [N].
        n_classes: C.
        dtype: type of the batches, float64 or float32.
    """

    def __init__(self, pred_probs: Any, ids: Any = None) -> None:
        batch = None
        if not _is_stream(pred_probs):
            if isinstance(pred_probs, Sequence) or getattr(pred_probs, "ndim", 2) != 2:
                pred_probs, ids = combine_pred_probs(pred_probs, ids)
            if not isinstance(pred_probs, (Tensor, np.ndarray)):
                pred_probs = np.asarray(pred_probs)
            if pred_probs.dtype not in _FLOATING:
                raise TypeError(f"pred_probs must be floating-point; got {pred_probs.dtype}.")
            batch = max(1, _BATCH_NUMBERS // max(1, pred_probs.shape[1]))
        self._rows = open_rows(pred_probs, batch)
        _check_classes(self._rows.n_features)
        self.n_classes, self.dtype = self._rows.n_features, self._rows.dtype
        self.ids = as_ids(ids, self._rows.count(), self._rows.device)

    def __len__(self) -> int:
        return len(self.ids)

    def columns(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the slice of the samples that a batch has, and its columns [C, n]."""
        for at, rows in self._rows.batches():
            columns = rows.T.contiguous()
            _check(columns, torch.arange(at.start, at.stop))
            yield at, columns

    def mean(self) -> Tensor:
        """The mean over samples, float32 [C]; of very many, over an evenly spaced subset."""
        step = max(1, len(self) * self.n_classes // _MEAN_NUMBERS)
        return self.take(torch.arange(0, len(self), step)).mean(0).float()

    def take(self, samples: Tensor) -> Tensor:
        """The probabilities of the samples at these positions, in any order, in float64."""
        rising, place = samples.unique(return_inverse=True)
        rows = self._rows.take(rising)
        _check(rows.T, rising)
        return rows.double()[place]


def _is_stream(pred_probs: Any) -> bool:
    """True for batches of one set of probabilities; a sequence is several."""
    if callable(pred_probs) and not hasattr(pred_probs, "ndim"):
        return True
    known = isinstance(pred_probs, (Tensor, Sequence)) or hasattr(pred_probs, "__array__")
    return isinstance(pred_probs, Iterable) and not known


def _is_pairs(pred_probs: Any) -> bool:
    return (
        isinstance(pred_probs, Sequence)
        and len(pred_probs) > 0
        and all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pred_probs)
        and all(torch.as_tensor(first).dim() == 1 for first, _ in pred_probs)
    )


def _from_folds(folds: Sequence[tuple[Any, Any]], ids: Any, name: str) -> tuple[Tensor, Tensor]:
    scored = [_checked(pred_probs, name) for _, pred_probs in folds]
    device = scored[0].device
    named = [
        as_ids(fold_ids, len(pred_probs), device)
        for (fold_ids, _), pred_probs in zip(folds, scored, strict=True)
    ]
    if len({pred_probs.shape[1] for pred_probs in scored}) > 1:
        shapes = ", ".join(str(list(pred_probs.shape)) for pred_probs in scored)
        raise ValueError(f"{name} of all folds must have the same classes; got {shapes}.")
    known, place, times = torch.cat(named).unique(return_inverse=True, return_counts=True)
    total = torch.zeros(len(known), scored[0].shape[1], dtype=torch.float64, device=device)
    total.index_add_(0, place, torch.cat(scored).double())
    pred_probs = total / times[:, None]
    if ids is None:
        return pred_probs, known
    ids = as_ids(ids, len(torch.as_tensor(ids)), device)
    return pred_probs[positions(ids, known, "ids")], ids


def _checked(pred_probs: Any, name: str) -> Tensor:
    """[N, C] probabilities, the rows of which sum to one."""
    pred_probs = as_rows(pred_probs, name)
    _check_classes(pred_probs.shape[1], name)
    _check(pred_probs.T, torch.arange(len(pred_probs)), name)
    return pred_probs


def _check_classes(n_classes: int, name: str = "pred_probs") -> None:
    if n_classes < 2:
        raise ValueError(f"{name} must have at least 2 classes; got {n_classes}.")


def _check(columns: Tensor, samples: Tensor, name: str = "pred_probs") -> None:
    """Raise unless the columns [C, n] of these samples are probabilities."""
    if columns.numel() == 0:
        return
    if columns.dtype in (torch.float16, torch.bfloat16):
        columns = columns.float()
    sums, smallest = columns.sum(0), columns.amin(0)
    # A NaN or an infinity makes its sum, or the smallest entry, one too.
    good = ((sums - 1).abs() <= _SUM_TOLERANCE) & (smallest >= 0)
    if good.all():
        return
    row = int((~good).nonzero()[0, 0])
    sample, entries = int(samples[row]), columns[:, row]
    if not entries.isfinite().all():
        label = int((~entries.isfinite()).nonzero()[0, 0])
        raise ValueError(
            f"{name} must be finite; {name}[{sample}, {label}] is {entries[label].item()}."
        )
    raise ValueError(
        f"{name} must be probabilities, softmax(logits): every row not negative with sum 1; "
        f"row {sample} has minimum {smallest[row].item():.4g} and sum {sums[row].item():.4g}."
    )
