"""P(true label | x) from P(given label | x): T(x)ᵀ inverted on the simplex."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.ops import reference

_MAX_ITER, _TOL = 200, 1e-5
_MAX_ENTRIES = 1 << 22  # entries of T(x), or of the rows, at once where there is no kernel
_CACHED_CLASSES = 512  # a larger T leaves the caches: products with many rows are faster


@torch.no_grad()
def invert_posterior(
    pred_probs: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    *,
    max_iter: int = _MAX_ITER,
    tol: float = _TOL,
) -> Tensor:
    """The probabilities g of the true label that best explain those of the given label, p, [N, C].

    They maximise Σₖ pₖ log (T(x)ᵀg)ₖ over the simplex. The solution is T(x)⁻ᵀp if that lies on the
    simplex, else the point of maximum likelihood. `csrc/invert_posterior.h` derives the steps.

    Args:
        pred_probs: P(given label | x), rows on the simplex, [N, C]; float32 or float64.
        weights: h(x), [N, R]; None for one class-dependent matrix.
        parts: P, [R, C, C]; [C, C] without weights.
        max_iter: the maximum number of steps of a row.
        tol: a row ends where no entry is to move by more than this, as a share of the larger of
            itself and that of T(x)ᵀg.
    """
    weights = None if weights is None else weights.to(pred_probs.dtype)
    by_row = pred_probs.shape[1] <= _CACHED_CLASSES or weights is not None
    solve = torch.ops.ptd_ext.invert_posterior if pred_probs.is_cpu and by_row else _in_blocks
    return solve(pred_probs, weights, parts.to(pred_probs.dtype), max_iter, tol)


def _in_blocks(
    pred_probs: Tensor, weights: Tensor | None, parts: Tensor, max_iter: int, tol: float
) -> Tensor:
    """By matrix products, in bounded memory."""
    classes = pred_probs.shape[1]
    found = torch.empty_like(pred_probs)
    step = max(1, _MAX_ENTRIES // (classes * classes if weights is not None else classes))
    for first in range(0, len(pred_probs), step):
        rows = slice(first, first + step)
        shares = None if weights is None else weights[rows]
        found[rows] = reference.invert_posterior(pred_probs[rows], shares, parts, max_iter, tol)
    return found
