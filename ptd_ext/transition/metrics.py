"""The error of an estimated T(x), against the rows that the noise was drawn from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptd_ext.utils.ids import as_labels, as_rows


def approximation_error(
    rows: Any,
    labels: Any,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None = None,
) -> float:
    """Mean over samples of ‖p − T(x)_y‖₁, from 0 to 2: the measure of the paper's Table 7.

    Only row y of T(x) is formed, as only that row took part in drawing the label.

    Args:
        rows: p, [N, C], such as `LabelNoise.rows`.
        labels: y, [N], the clean labels.
        weights: h(x), [N, R]; None for one class-dependent matrix.
        parts: P, [R, C, C]; [C, C] without weights.
        slack: ΔT, [C, C].

    Examples:
        >>> labels, weights, parts = torch.tensor([0, 1]), torch.ones(2, 1), torch.eye(2)[None]
        >>> rows = torch.tensor([[0.8, 0.2], [0.3, 0.7]])  # the true ones
        >>> error = ptd_ext.transition.approximation_error(rows, labels, weights, parts)
        >>> round(error, 3)
        0.5
    """
    rows = as_rows(rows, "rows")
    samples, classes = rows.shape
    labels, _ = as_labels(labels, classes)
    if parts.shape[-2:] != (classes, classes) or parts.dim() != (2 if weights is None else 3):
        wanted = f"[{classes}, {classes}]" if weights is None else f"[R, {classes}, {classes}]"
        raise ValueError(f"parts must be {wanted}; got {list(parts.shape)}.")
    if len(labels) != samples or samples == 0:
        raise ValueError(f"labels must be [{samples}] and not empty; got {list(labels.shape)}.")
    if weights is not None and weights.shape != (samples, len(parts)):
        raise ValueError(f"weights must be [{samples}, {len(parts)}]; got {list(weights.shape)}.")
    return row_distance(rows, rows_of_labels(labels, weights, parts, slack))


def row_distance(rows: Tensor, others: Tensor) -> float:
    """Mean over samples of the L1 distance between two sets of rows, [N, C]."""
    return (rows.to(others) - others).abs().sum(1).mean().item()


def rows_of_labels(
    labels: Tensor, weights: Tensor | None, parts: Tensor, slack: Tensor | None
) -> Tensor:
    """T(x)_y of every sample, float64 [N, C]; arguments as in :func:`approximation_error`."""
    found = parts.new_empty(len(labels), parts.shape[-1], dtype=torch.float64)
    for label in labels.unique().tolist():
        members = (labels == label).nonzero()[:, 0].to(parts.device)
        row = parts[..., label, :].double()
        row = row if weights is None else weights[members].double() @ row
        if slack is not None:
            # As `project_transition`, for rows that do not form a square matrix.
            row = (row + slack[label].double()).clamp(min=0)
            sums = row.sum(-1, keepdim=True)
            row = torch.where(sums > 0, row / sums, 1 / parts.shape[-1])
        found[members] = row
    return found
