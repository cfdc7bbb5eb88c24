"""Checks that Python makes: of options, of what no operator sees, and of values on request.

Shapes and types of an operator's arguments are its own to check.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext._register import REDUCTIONS

__all__ = [
    "check_importance",
    "check_reduction",
    "check_smoothing",
    "check_transition",
    "validate_batch",
    "validate_labels",
]


def check_reduction(reduction: str) -> None:
    """Refuse what F.cross_entropy would."""
    if reduction not in REDUCTIONS:
        raise ValueError(f'reduction must be "none", "mean" or "sum"; got {reduction!r}.')


def check_smoothing(smoothing: float) -> None:
    """Refuse an ε that is no share."""
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and less than 1; got {smoothing}.")


def check_importance(importance: str, max_importance: float | None) -> None:
    """Refuse options that reweight_loss does not have."""
    if importance not in ("detached", "attached"):
        raise ValueError(f'importance must be "detached" or "attached"; got {importance!r}.')
    if max_importance is not None and not max_importance > 0:
        raise ValueError(f"max_importance must be positive or None; got {max_importance}.")


def check_transition(weights: Tensor | None, parts: Tensor, slack: Tensor | None) -> None:
    """Shapes and types of what makes T(x), for `transition_matrix`, which is no operator."""
    shape = list(parts.shape)
    classes = shape[-1] if shape else 0
    stacked = [*shape[:1], classes, classes] if weights is not None else [classes, classes]
    if shape != stacked and not (weights is None and shape == [1, classes, classes]):
        wanted = "[R, C, C]" if weights is not None else "[C, C] when weights is None"
        raise ValueError(f"parts must be {wanted}; got {shape}.")
    if weights is not None and (weights.dim() != 2 or weights.shape[1] != shape[0]):
        raise ValueError(
            f"weights must be [N, {shape[0]}], a column for each part; got {list(weights.shape)}."
        )
    if slack is not None and list(slack.shape) != [classes, classes]:
        raise ValueError(f"slack must be [{classes}, {classes}]; got {list(slack.shape)}.")
    for name, tensor in (("weights", weights), ("parts", parts), ("slack", slack)):
        if tensor is not None and not tensor.is_floating_point():
            raise TypeError(f"{name} must be floating-point; got {tensor.dtype}.")


def validate_batch(weights: Tensor | None, parts: Tensor, slack: Tensor | None) -> None:
    """Refuse negative or non-finite weights and parts, and non-finite slack."""
    if torch.compiler.is_compiling():
        raise ValueError(
            "validate=True reads values, which torch.compile cannot: leave it out there."
        )
    if weights is not None:
        _refuse(weights, ~torch.isfinite(weights) | (weights < 0), "weights", "finite and >= 0")
    _refuse(parts, ~torch.isfinite(parts) | (parts < 0), "parts", "finite and >= 0")
    if slack is not None:
        _refuse(slack, ~torch.isfinite(slack), "slack", "finite")


def validate_labels(noisy_labels: Tensor, logits: Tensor, ignore_index: int) -> None:
    """Refuse labels outside 0 … C−1 other than `ignore_index`."""
    if logits.dim() != 2:
        return  # the operator says so
    classes = logits.shape[1]
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
