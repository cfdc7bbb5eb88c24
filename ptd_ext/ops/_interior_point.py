r"""Least squares with rows on the simplex, many problems at once, to full precision.

    min  f(Q) = ½ ⟨Q, G Q⟩ − ⟨B, Q⟩   over Q [R, K] with Q ≥ 0 and Q 1 = 1,    G [R, R] ⪰ 0

An interior-point method, as anchors that resemble each other make G nearly singular: first-order
methods then need some √cond(G) steps, this needs about twenty for any G. The optimality
conditions, with multipliers ν [R] of the sums and Z [R, K] of the signs, are

    G Q − B − ν 1ᵀ − Z = 0,   Q 1 = 1,   Q ∘ Z = 0,   Q, Z ≥ 0.

Newton's method on them, with Q ∘ Z = σμ for a falling μ, eliminates dZ = −(c + Z ∘ dQ)/Q, where c
is the wanted change of Q ∘ Z, and is left with one system per column k of Q,

    M_k dQ_k = s_k + dν,   M_k = G + diag(Z_k/Q_k),   s_k = −(dual residual)_k − c_k/Q_k,

tied together by the sums: (Σ_k M_k⁻¹) dν = (1 − Q 1) − Σ_k M_k⁻¹ s_k. So nothing larger than R × R
is ever factorised. Predictor and corrector share the factors (Mehrotra 1992).

This is the definition of torch.ops.ptd_ext.simplex_least_squares, in torch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_GAP = 1e-22  # mean of Q ∘ Z: below it rounding dominates
_MAX_STEPS = 60
_STAY_INSIDE = 0.995
_MATRICES = 1 << 23  # entries of all M_k at once


def simplex_least_squares(gram: Tensor, right: Tensor) -> Tensor:
    """The minimisers [P, R, K] by the method that the C++ operator implements, within rounding."""
    _, parts, columns = right.shape
    at_once = max(1, _MATRICES // (columns * parts * parts))
    pairs = zip(gram.split(at_once), right.split(at_once), strict=True)
    return torch.cat([_interior_point(g, b) for g, b in pairs])


def _interior_point(gram: Tensor, right: Tensor) -> Tensor:
    # The centre of the simplex, and a ν that makes Z positive: inside, with no residual.
    rows = torch.full_like(right, 1 / right.shape[2])
    gradient = gram @ rows - right
    sums = gradient.amin(2, keepdim=True) - 1
    signs = gradient - sums
    # A perturbation of the direction, not of the problem: keeps M_k positive in rounding.
    eye = torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    floor = 1e-15 * gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
    for _ in range(_MAX_STEPS):
        gap = (rows * signs).mean((1, 2), keepdim=True)
        running = gap > _GAP
        if not running.any():
            break
        matrices = gram[:, None] + torch.diag_embed((signs / rows + floor).transpose(1, 2))
        factor, failed = torch.linalg.cholesky_ex(matrices)  # [P, K, R, R]
        # A problem whose singular G became indefinite by rounding stays as it is. Any factor will
        # do for it but the unfinished one, for whose zeros cholesky_inverse raises.
        factor = torch.where((failed == 0)[..., None, None], factor, eye)
        running &= (failed == 0).all(1)[:, None, None]
        residuals = gram @ rows - right - sums - signs, 1 - rows.sum(2, keepdim=True)
        newton = _Newton(torch.cholesky_inverse(factor), rows, signs, *residuals)

        d_rows, _, d_signs = newton.direction(rows * signs)
        step = _longest(rows, d_rows, signs, d_signs)
        ahead = ((rows + step * d_rows) * (signs + step * d_signs)).mean((1, 2), keepdim=True)
        centre = gap * (ahead / gap) ** 3

        d_rows, d_sums, d_signs = newton.direction(rows * signs + d_rows * d_signs - centre)
        step = _STAY_INSIDE * _longest(rows, d_rows, signs, d_signs)
        # NaN where rounding leaves no direction: such a problem keeps its rows.
        running &= step.isfinite()
        rows = torch.where(running, rows + step * d_rows, rows)
        sums = torch.where(running, sums + step * d_sums, sums)
        signs = torch.where(running, signs + step * d_signs, signs)
    return rows


class _Newton(NamedTuple):
    """The linear system at one point."""

    inverse: Tensor  # M_k⁻¹, [P, K, R, R]
    rows: Tensor  # Q, [P, R, K]
    signs: Tensor  # Z, [P, R, K]
    dual: Tensor  # G Q − B − ν 1ᵀ − Z, [P, R, K]
    missing: Tensor  # 1 − Q 1, [P, R, 1]

    def direction(self, change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """dQ, dν and dZ that take Q ∘ Z down by `change`, c."""
        alone = _columns(self.inverse, -self.dual - change / self.rows)
        behind = self.missing - alone.sum(2, keepdim=True)
        d_sums = torch.linalg.solve_ex(self.inverse.sum(1), behind).result
        d_rows = alone + _columns(self.inverse, d_sums.expand_as(alone))
        return d_rows, d_sums, -(change + self.signs * d_rows) / self.rows


def _columns(inverse: Tensor, right: Tensor) -> Tensor:
    """M_k⁻¹ r_k for every column k: [P, K, R, R] and [P, R, K] make [P, R, K]."""
    return (inverse @ right.transpose(1, 2)[..., None])[..., 0].transpose(1, 2)


def _longest(rows: Tensor, d_rows: Tensor, signs: Tensor, d_signs: Tensor) -> Tensor:
    """The longest step up to 1 that leaves both positive, [P, 1, 1]."""
    shrink = torch.maximum((-d_rows / rows).amax((1, 2)), (-d_signs / signs).amax((1, 2)))
    return (1 / shrink.clamp(min=1))[:, None, None]
