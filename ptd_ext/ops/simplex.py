"""Points on the simplex: the nearest point, and the minimum of a quadratic."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ptd_ext.ops import reference
from ptd_ext.ops._row_ops import NOT_DIFFERENTIABLE, SIMPLEX_PROJECTION
from ptd_ext.ops.checks import check_tensors
from ptd_ext.ops.devices import check_device


def simplex_projection(x: Tensor) -> Tensor:
    """The nearest point of {p ≥ 0, Σp = 1} to every row of ``x``, max(x − θ, 0).

    Exact, and differentiable: on the support A of a row its Jacobian is I − 11ᵀ/|A|, elsewhere
    zero. Infinities are limits: entries of +∞ share the mass equally, entries of −∞ get none, and a
    row that is −∞ throughout becomes uniform. A NaN makes its own row NaN.

    Args:
        x: […, R], rows of any length. Half types are projected in float32, and that is the type of
            the result.

    Examples:
        >>> ptd_ext.ops.simplex_projection(torch.tensor([[0.9, 0.3, -0.2]]))
        tensor([[0.8000, 0.2000, 0.0000]])
    """
    check_tensors(x=x)
    check_device(x)
    return SIMPLEX_PROJECTION(reference.accumulated(x))


def simplex_weights(
    gram: Tensor,
    linear: Tensor,
    start: Tensor | None = None,
    *,
    max_iter: int = 10,
    tol: float = 0.0,
) -> Tensor:
    """Solve min ½ hGhᵀ − b·h over h ≥ 0, Σh = 1 for every row b of ``linear``.

    With G = WWᵀ and b = xWᵀ that is the nearest point to x among the mixtures hW. Accelerated
    projected-gradient steps with the exact projection; no step makes a row's objective rise. Rows
    do not depend on each other, not even in their last digit. Not differentiable.

    Args:
        gram: G, […, R, R], symmetric and positive semi-definite; R at most 256.
        linear: b, […, N, R], with the leading dimensions of ``gram``; float32 or float64.
            An entry of −∞ gets no weight; NaN and +∞ make their row NaN.
        start: […, N, R], where to start from; the centre of the simplex by default. Rows are
            projected onto the simplex first.
        max_iter: maximum number of steps of a row.
        tol: a row stops when a step without momentum is no longer than this.

    Returns:
        h, […, N, R].

    Examples:
        >>> basis = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        >>> x = torch.tensor([[0.25, 0.75, 0.0]])
        >>> ptd_ext.ops.simplex_weights(basis @ basis.T, x @ basis.T)
        tensor([[0.2500, 0.7500]])
    """
    check_tensors(gram=gram, linear=linear, start=start)
    if torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (gram, linear, start)
    ):
        raise RuntimeError(NOT_DIFFERENTIABLE)
    if linear.dim() < 2 or gram.shape != (*linear.shape[:-2], *linear.shape[-1:] * 2):
        raise ValueError(
            "gram must be […, R, R] and linear […, N, R] with the same leading dimensions; got "
            f"{list(gram.shape)} and {list(linear.shape)}."
        )
    if tol < 0:
        raise ValueError(f"tol must not be negative; got {tol}.")
    check_device(linear)
    batch = math.prod(linear.shape[:-2])
    batched = linear.reshape(batch, *linear.shape[-2:])
    if start is not None:
        start = simplex_projection(start.expand(linear.shape).reshape(batched.shape))
    problem = WeightProblem.of(gram.reshape(batch, *gram.shape[-2:]))
    return problem.solve(batched, start, max_iter, tol).reshape(linear.shape)


class WeightProblem(NamedTuple):
    """The quadratics h G hᵀ / 2, in the form that the operator takes."""

    contraction: Tensor  # [B, R, R], I − sG of the centred G
    step: Tensor  # [B], s
    shift: Tensor  # [B, R], what centring adds to s·b

    @classmethod
    def of(cls, gram: Tensor) -> WeightProblem:
        """From G, [B, R, R].

        Every difference of two points of the simplex sums to zero, so that of G only PGP counts,
        P = I − 11ᵀ/R. Its largest eigenvalue can be far smaller than that of G, and steps as much
        longer. With h = Ph + 1/R the gradient Gh − b is, but for a constant, PGPh − (b − G1/R).
        """
        mean = gram.mean(-1)  # [B, R]
        centred = gram - mean[:, :, None] - mean[:, None, :] + mean.mean(-1)[:, None, None]
        bound = eigenvalue_bound(centred)
        step = torch.where(bound > 0, 1 / bound, 1)
        eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        return cls(eye - step[:, None, None] * centred, step, -step[:, None] * mean)

    def solve(self, linear: Tensor, start: Tensor | None, max_iter: int, tol: float) -> Tensor:
        """Weights [B, N, R] for b [B, N, R]."""
        return torch.ops.ptd_ext.simplex_weights(*self, linear, start, max_iter, tol)


def eigenvalue_bound(matrix: Tensor, squarings: int = 4) -> Tensor:
    """An upper bound on the eigenvalues of symmetric positive semi-definite [B, R, R].

    λ ≤ (tr A³²)^(1/32), which is at most R^(1/32) times the largest: 1.1 at R = 20, 1.2 at R = 256.
    Four squarings and a Frobenius norm, on any device and without waiting for it. Each square is
    scaled to norm one: A = s₀A₀, A₀² = s₁A₁, … give λ ≤ s₀ s₁^½ s₂^¼ …. Its largest entry is taken
    out first, whose square may be more than the type can hold.
    """
    tiny = torch.finfo(matrix.dtype).tiny
    bound = matrix.abs().amax((1, 2))
    matrix = matrix / bound.clamp(min=tiny)[:, None, None]
    for power in range(squarings + 1):
        norm = torch.linalg.matrix_norm(matrix)
        bound = bound * norm ** (0.5**power)
        matrix = matrix / norm.clamp(min=tiny)[:, None, None]
        matrix = matrix @ matrix
    return bound
