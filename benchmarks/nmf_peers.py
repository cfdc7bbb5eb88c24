"""X ≈ hW with rows of h on the simplex, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor


def sorted_projection(x: Tensor) -> Tensor:
    """Project rows onto the simplex by sorting."""
    ordered = x.sort(-1, descending=True).values
    excess = ordered.cumsum(-1) - 1
    rank = torch.arange(1, x.shape[-1] + 1)
    size = (ordered > excess / rank).sum(-1, keepdim=True)
    return (x - excess.gather(-1, size - 1) / size).clamp(min=0)


def torch_weights(gram: Tensor, linear: Tensor, start: Tensor, steps: int) -> Tensor:
    """Accelerated projected-gradient steps in torch, with the plain Lipschitz constant."""
    length = 1 / torch.linalg.eigvalsh(gram)[-1]
    weights, ahead, age = start, start, 1.0
    for _ in range(steps):
        new = sorted_projection(ahead - length * (ahead @ gram - linear))
        next_age = (1 + (1 + 4 * age * age) ** 0.5) / 2
        ahead = new + (age - 1) / next_age * (new - weights)
        weights, age = new, next_age
    return weights


def torch_fit(x: Tensor, parts: Tensor, turns: int, steps: int) -> tuple[Tensor, Tensor]:
    """All iterations in torch: weights and parts."""
    weights = torch.full((len(x), len(parts)), 1 / len(parts))
    for _ in range(turns):
        weights = torch_weights(parts @ parts.T, x @ parts.T, weights, steps)
        gram = weights.T @ weights
        gram.diagonal().add_(1e-6 * gram.trace())
        parts = torch.linalg.solve(gram, weights.T @ x)
    return weights, parts
