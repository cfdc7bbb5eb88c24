"""From P(given label | x) to P(true label | x): the inverse of T(x)ᵀ, on the simplex."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.ops.functional import transition_matrix

__all__ = ["invert_posterior"]

_UNIFORM = 0.01  # of the start of the iteration
_NUMBERS = 1 << 24  # entries of T(x) in memory at once


@torch.no_grad()
def invert_posterior(
    noisy_posterior: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    *,
    iterations: int = 500,
    tolerance: float = 1e-6,
) -> Tensor:
    """The clean posterior g that explains a noisy posterior p best, [N, C].

    It maximises Σₖ pₖ log (T(x)ᵀg)ₖ over the simplex. The solution is T(x)⁻ᵀp if that is on the
    simplex, else the point of largest likelihood. The iteration is expectation maximisation,
    gᵢ ← gᵢ Σₖ Tᵢₖ pₖ / (T(x)ᵀg)ₖ, which stays on the simplex and never lowers the likelihood.

    Args:
        noisy_posterior: P(given label | x), rows on the simplex, [N, C].
        weights: h(x), [N, R]; None for one class-dependent matrix.
        parts: P, [R, C, C]; [C, C] without weights.
        iterations: the largest number of iterations.
        tolerance: the iteration stops when no probability moves by more than this.
    """
    samples, classes = noisy_posterior.shape
    found = torch.empty_like(noisy_posterior)
    step = max(1, _NUMBERS // (classes * classes if weights is not None else classes))
    for first in range(0, samples, step):
        rows = slice(first, first + step)
        matrix = transition_matrix(None if weights is None else weights[rows], parts)
        found[rows] = _invert(noisy_posterior[rows], matrix, iterations, tolerance)
    return found


def _invert(p: Tensor, matrix: Tensor, iterations: int, tolerance: float) -> Tensor:
    matrix = matrix.to(p.dtype)
    tiny = torch.finfo(p.dtype).tiny
    # Products never leave zero, so that every class starts with some probability.
    g = torch.lerp(p, torch.full_like(p, 1 / p.shape[1]), _UNIFORM)
    for _ in range(iterations):
        ratio = p / _product(g, matrix).clamp(min=tiny)
        new = g * _product(ratio, matrix.mT)
        new /= new.sum(1, keepdim=True).clamp(min=tiny)
        moved = (new - g).abs().amax() if len(g) else 0.0
        g = new
        if moved <= tolerance:
            break
    return g


def _product(rows: Tensor, matrix: Tensor) -> Tensor:
    if matrix.dim() == 2:
        return rows @ matrix
    return torch.bmm(rows[:, None], matrix)[:, 0]
