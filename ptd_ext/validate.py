"""Checks of values, for `validate=True`: they read from a GPU, so one has to ask for them."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["validate_batch", "validate_labels"]


def validate_batch(weights: Tensor | None, parts: Tensor, slack: Tensor | None) -> None:
    """Refuse negative or non-finite weights and parts, and non-finite slack."""
    if weights is not None:
        _refuse(weights, ~torch.isfinite(weights) | (weights < 0), "weights", "finite and >= 0")
    _refuse(parts, ~torch.isfinite(parts) | (parts < 0), "parts", "finite and >= 0")
    if slack is not None:
        _refuse(slack, ~torch.isfinite(slack), "slack", "finite")


def validate_labels(noisy_labels: Tensor, classes: int, ignore_index: int) -> None:
    """Refuse labels outside 0 … C−1 other than `ignore_index`."""
    bad = (noisy_labels < 0) | (noisy_labels >= classes)
    bad &= noisy_labels != ignore_index
    _refuse(noisy_labels, bad, "noisy_labels", f"0 to {classes - 1} or ignore_index")


def _refuse(tensor: Tensor, bad: Tensor, name: str, expected: str) -> None:
    if not bad.any():
        return
    where = bad.nonzero()[0].tolist()
    value = tensor[tuple(where)].item()
    index = ", ".join(map(str, where))
    raise ValueError(f"{name} must be {expected}; {name}[{index}] is {value}.")
