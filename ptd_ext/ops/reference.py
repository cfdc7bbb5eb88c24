"""Every operator in plain torch: the definitions that the kernels are tested against.

They are written for readability, not speed, and form the whole T(x), [N, C, C]. They take the
arguments of their namesakes in `ptd_ext` and are differentiable to any order, which is also
how second derivatives of the fused operators are computed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.ops._interior_point import simplex_least_squares

__all__ = [
    "clean_posterior",
    "forward_loss",
    "invert_posterior",
    "noisy_posterior",
    "project_transition",
    "reweight_loss",
    "simplex_least_squares",
    "simplex_projection",
    "simplex_weights",
    "transition_matrix",
]


def project_transition(matrix: Tensor) -> Tensor:
    """Clamp at zero and divide rows by their sum; a row with nothing positive becomes uniform.

    So does a row whose sum is subnormal, of which one over the sum could be infinite.
    """
    # Not clamp(min=0), whose gradient at exactly zero is one. A NaN stays.
    clamped = torch.where(matrix <= 0, 0, matrix)
    row_sum = clamped.sum(-1, keepdim=True)
    empty = row_sum < torch.finfo(accumulated(row_sum).dtype).tiny
    return torch.where(empty, 1 / matrix.shape[-1], clamped / torch.where(empty, 1, row_sum))


def transition_matrix(weights: Tensor | None, parts: Tensor, slack: Tensor | None = None) -> Tensor:
    """T(x) = Σⱼ hⱼ Pʲ as [N, C, C] (or [C, C] without weights), revised where slack is given."""
    if weights is None:
        matrix = parts.reshape(parts.shape[-2:])
    else:
        matrix = torch.einsum("nj,jik->nik", weights, parts)
    return matrix if slack is None else project_transition(matrix + slack)


def noisy_posterior(
    logits: Tensor, weights: Tensor | None, parts: Tensor, slack: Tensor | None = None
) -> Tensor:
    """T(x)ᵀ softmax(logits)."""
    softmax = accumulated(logits).softmax(-1)
    return (transition_matrix(weights, parts, slack) * softmax[:, :, None]).sum(-2)


def clean_posterior(
    logits: Tensor,
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None = None,
    *,
    ignore_index: int = -100,
    smoothing: float = 1e-8,
) -> Tensor:
    """softmax(logits + log u), u the column of the noisy label; softmax(logits) where ignored."""
    logits = accumulated(logits)
    column = _label_column(noisy_labels, weights, parts, slack, ignore_index, smoothing)
    counted = (noisy_labels != ignore_index)[:, None]
    return (logits + torch.where(counted, column, 1).log()).softmax(-1)


def forward_loss(
    logits: Tensor,
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    class_weight: Tensor | None = None,
    smoothing: float = 1e-8,
) -> Tensor:
    """logsumexp(z) − logsumexp(z + log u), which is −log (T(x)ᵀ softmax(z))_ȳ."""
    logits = accumulated(logits)
    column = _label_column(noisy_labels, weights, parts, slack, ignore_index, smoothing)
    loss = logits.logsumexp(-1) - (logits + column.log()).logsumexp(-1)
    return _reduce(loss, noisy_labels, reduction, ignore_index, class_weight)


def reweight_loss(
    logits: Tensor,
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None = None,
    *,
    importance: str = "detached",
    max_importance: float | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    class_weight: Tensor | None = None,
    smoothing: float = 1e-8,
) -> Tensor:
    """β · cross entropy with β = g_ȳ / (T(x)ᵀ g)_ȳ, g = softmax(z)."""
    logits = accumulated(logits)
    column = _label_column(noisy_labels, weights, parts, slack, ignore_index, smoothing)
    labels = _counted_labels(noisy_labels, ignore_index)[:, None]
    label_logit = logits.gather(1, labels)[:, 0]
    beta = (label_logit - (logits + column.log()).logsumexp(-1)).exp()
    if importance == "detached":
        beta = beta.detach()
    if max_importance is not None:
        beta = beta.clamp(max=max_importance)
    # −log g_ȳ = log(1 + Σ exp(zᵢ − z_ȳ) over i ≠ ȳ): a large β must find no rounding to enlarge.
    lowest = torch.finfo(logits.dtype).min  # instead of −∞, which has no gradient if none is left
    others = logits.clamp(min=lowest).scatter(1, labels, lowest).logsumexp(-1)
    cross_entropy = torch.logaddexp(others - label_logit, torch.zeros_like(others))
    # g log g → 0: a label the network rules out has no weight, and 0 · ∞ must not be NaN.
    loss = torch.where(beta == 0, 0, beta * torch.where(beta == 0, 0, cross_entropy))
    return _reduce(loss, noisy_labels, reduction, ignore_index, class_weight)


def simplex_projection(x: Tensor) -> Tensor:
    """The nearest point of the simplex to every row, max(x − θ, 0), by sorting.

    With u the row sorted downwards, ρ = max{k : u_k > (Σ_{i≤k} uᵢ − 1)/k} is the size of the
    support and θ = (Σ_{i≤ρ} uᵢ − 1)/ρ.
    """
    x = accumulated(x)
    top = x.detach().amax(-1, keepdim=True)
    # Infinities as limits. The projection does not change with what is added to a whole row.
    limit = torch.where(x == top, 0.0, -torch.inf).to(x)
    shifted = torch.where(top.isinf(), limit, x - top)
    with torch.no_grad():
        # The largest is 0, so that θ ≥ −1, and what lies below −1 would only overflow.
        near = shifted.clamp(min=-1)
        ordered = near.sort(-1, descending=True).values
        excess = ordered.cumsum(-1) - 1
        rank = torch.arange(1, x.shape[-1] + 1, device=x.device)
        size = (ordered > excess / rank).sum(-1, keepdim=True).clamp(min=1)
        support = ~(near <= excess.gather(-1, size - 1) / size)  # all of a row with a NaN
    # The same θ once more, as a function of x on a support that is fixed: no gradient of a sort.
    on = torch.where(support, shifted, 0)
    theta = (on.sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return torch.where(support, shifted - theta, 0)


def simplex_weights(
    contraction: Tensor,
    step: Tensor,
    shift: Tensor,
    linear: Tensor,
    start: Tensor | None,
    max_iter: int,
    tol: float,
) -> Tensor:
    """The steps of the operator of this name, for all rows at once: see csrc/math/simplex.h."""
    weights = torch.full_like(linear, 1 / linear.shape[-1]) if start is None else start
    offset = step[:, None, None] * linear + shift[:, None, :]
    image = before = weights @ contraction + offset
    age = torch.zeros_like(linear[..., :1])
    moving = torch.ones_like(age, dtype=torch.bool)
    for _ in range(max_iter):
        beta = age / (age + 3)
        ahead = image + beta * (image - before)
        candidate = simplex_projection(ahead)
        on = candidate > 0
        theta = torch.where(on, ahead - candidate, 0).sum(-1, True) / on.sum(-1, True)
        new_image = candidate @ contraction + offset
        change = candidate - weights
        slope = (candidate + weights) - (new_image + image) + 2 * theta
        rise = (change * slope).sum(-1, keepdim=True)
        stalled = (rise > 0) | (change.norm(dim=-1, keepdim=True) <= tol)
        taken = ~(rise > 0) & moving
        before = image
        weights = torch.where(taken, candidate, weights)
        image = torch.where(taken, new_image, image)
        moving = moving & ~(stalled & (age == 0))
        age = torch.where(stalled, 0, age + 1)
    return weights


def invert_posterior(
    probs: Tensor, weights: Tensor | None, parts: Tensor, max_iter: int, tol: float
) -> Tensor:
    """The steps of the operator of this name, for all rows at once: see csrc/invert_posterior.h."""
    matrix = transition_matrix(weights, parts)
    smallest = torch.finfo(probs.dtype).tiny ** 0.5

    def product(rows: Tensor, matrix: Tensor) -> Tensor:
        return rows @ matrix if matrix.dim() == 2 else (rows[:, None] @ matrix)[:, 0]

    clean = probs + 0.01 * (1 / probs.shape[1] - probs)
    moving = torch.ones_like(clean[:, :1], dtype=torch.bool)
    for _ in range(max_iter):
        explained = product(clean, matrix)
        q = explained.clamp(min=smallest)
        gradient = product(1 - probs / q, matrix.mT)
        curvature = product(probs / q / q, matrix.mT.square())
        scale = torch.where(curvature * clean < 1, 1 / curvature.clamp(min=smallest), clean)
        step = torch.maximum(-gradient * scale, -clean).clamp(max=1)
        step = torch.where((clean == 0) & (gradient >= 0), 0, step)
        far = step.abs() > tol * torch.maximum(clean, explained)
        moving = moving & far.any(1, keepdim=True)
        if not moving.any():
            break
        change = product(step, matrix)
        falls = (change < 0) & (probs > 0)
        limits = torch.where(falls, -0.9 * explained / change, 1)
        length = limits.amin(1, keepdim=True).clamp(max=1)
        start = (step * gradient).sum(1, keepdim=True)
        for _ in range(3):
            q = (explained + length * change).clamp(min=smallest)
            slope = (change * (1 - probs / q)).sum(1, keepdim=True)
            steep = slope > -0.1 * start
            length = torch.where(steep, length * start / (start - slope), length)
        clean = torch.where(moving, (clean + length * step).clamp(min=0), clean)
    total = clean.sum(1, keepdim=True)
    return torch.where(total == 0, probs, clean / total)


def accumulated(tensor: Tensor) -> Tensor:
    """Cast half types to float32, in which they are accumulated."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _counted_labels(noisy_labels: Tensor, ignore_index: int) -> Tensor:
    return torch.where(noisy_labels == ignore_index, 0, noisy_labels).long()


def _label_column(
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None,
    ignore_index: int,
    smoothing: float,
) -> Tensor:
    """Column ȳ of (1 − ε) T(x) + ε / C, one row per sample."""
    matrix = transition_matrix(weights, parts, slack)
    classes = matrix.shape[-1]
    labels = _counted_labels(noisy_labels, ignore_index)
    matrix = matrix.expand(len(labels), -1, -1)
    column = matrix.gather(2, labels[:, None, None].expand(-1, classes, 1))[:, :, 0]
    return (1 - smoothing) * column + smoothing / classes


def _reduce(
    loss: Tensor,
    noisy_labels: Tensor,
    reduction: str,
    ignore_index: int,
    class_weight: Tensor | None,
) -> Tensor:
    counted = noisy_labels != ignore_index
    weight = counted.to(loss.dtype)
    if class_weight is not None:
        weight = weight * class_weight[_counted_labels(noisy_labels, ignore_index)]
    loss = torch.where(counted, loss, 0) * weight
    if reduction == "none":
        return loss
    return loss.sum() / weight.sum() if reduction == "mean" else loss.sum()
