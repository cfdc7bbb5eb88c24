"""P(true label | x) from P(given label | x): T(x)ᵀ inverted on the simplex."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.ops.functional import transition_matrix

_UNIFORM = 0.01  # share of the uniform distribution at the start of the iteration
_MAX_ENTRIES = 1 << 24  # entries of T(x) in memory at once


@torch.no_grad()
def invert_posterior(
    pred_probs: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    *,
    max_iter: int = 500,
    tol: float = 1e-6,
) -> Tensor:
    """The probabilities g of the true label that best explain those of the given label, p, [N, C].

    They maximise Σₖ pₖ log (T(x)ᵀg)ₖ over the simplex. The solution is T(x)⁻ᵀp if that lies on the
    simplex, else the point of maximum likelihood. The iteration is expectation maximisation,
    gᵢ ← gᵢ Σₖ Tᵢₖ pₖ / (T(x)ᵀg)ₖ, which stays on the simplex and never lowers the likelihood.

    Args:
        pred_probs: P(given label | x), rows on the simplex, [N, C].
        weights: h(x), [N, R]; None for one class-dependent matrix.
        parts: P, [R, C, C]; [C, C] without weights.
        max_iter: the maximum number of iterations.
        tol: the iteration stops when no probability changes by more than this.
    """
    samples, classes = pred_probs.shape
    found = torch.empty_like(pred_probs)
    step = max(1, _MAX_ENTRIES // (classes * classes if weights is not None else classes))
    for first in range(0, samples, step):
        rows = slice(first, first + step)
        matrix = transition_matrix(None if weights is None else weights[rows], parts)
        found[rows] = _invert(pred_probs[rows], matrix, max_iter, tol)
    return found


def _invert(p: Tensor, matrix: Tensor, max_iter: int, tol: float) -> Tensor:
    matrix = matrix.to(p.dtype)
    tiny = torch.finfo(p.dtype).tiny
    # A factor of zero stays zero, so that every class starts with a positive probability.
    g = torch.lerp(p, torch.full_like(p, 1 / p.shape[1]), _UNIFORM)
    for _ in range(max_iter):
        ratio = p / _product(g, matrix).clamp(min=tiny)
        new = g * _product(ratio, matrix.mT)
        new /= new.sum(1, keepdim=True).clamp(min=tiny)
        change = (new - g).abs().amax() if len(g) else 0.0
        g = new
        if change <= tol:
            break
    return g


def _product(rows: Tensor, matrix: Tensor) -> Tensor:
    if matrix.dim() == 2:
        return rows @ matrix
    return torch.bmm(rows[:, None], matrix)[:, 0]
