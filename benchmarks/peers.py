"""The losses in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

SMOOTHING = 1e-8


def revise(matrix: Tensor) -> Tensor:
    """Clamp and normalise rows."""
    clamped = matrix.clamp(min=0)
    return clamped / clamped.sum(-1, keepdim=True)


def eager_full(logits, labels, weights, parts, slack):
    """Form T(x), then T(x)ᵀg, then select the entry of the label."""
    count, classes = logits.shape
    matrix = (weights @ parts.view(len(parts), -1)).view(count, classes, classes)
    if slack is not None:
        matrix = revise(matrix + slack)
    matrix = (1 - SMOOTHING) * matrix + SMOOTHING / classes
    posterior = torch.bmm(logits.softmax(-1).unsqueeze(1), matrix).squeeze(1)
    return -posterior.gather(1, labels[:, None]).log().mean()


def eager_column(logits, labels, weights, parts, slack):
    """Only column ȳ: gathered from the parts without slack, and from T(x) + ΔT otherwise."""
    count, classes = logits.shape
    if slack is None:
        columns = parts.permute(2, 0, 1)[labels]  # [N, R, C]
        column = (weights[:, :, None] * columns).sum(1)
    else:
        matrix = (weights @ parts.view(len(parts), -1)).view(count, classes, classes) + slack
        clamped = matrix.clamp(min=0)
        index = labels[:, None, None].expand(-1, classes, 1)
        column = clamped.gather(2, index).squeeze(2) / clamped.sum(-1)
    column = (1 - SMOOTHING) * column + SMOOTHING / classes
    return (logits.logsumexp(-1) - (logits + column.log()).logsumexp(-1)).mean()


def sample_loop(logits, labels, weights, parts, slack):
    """One sample at a time, with a sum of R matrices for each."""
    posterior = logits.softmax(-1)
    losses = []
    for n in range(len(logits)):
        matrix = torch.zeros_like(parts[0])
        for j in range(len(parts)):
            matrix = matrix + weights[n, j] * parts[j]
        if slack is not None:
            matrix = revise(matrix + slack)
        matrix = (1 - SMOOTHING) * matrix + SMOOTHING / len(matrix)
        losses.append(-torch.log(torch.matmul(posterior[n], matrix)[labels[n]]))
    return torch.stack(losses).mean()
