"""Checks that Python makes: of options, of what no operator sees, and of values on request.

Shapes and types of an operator's arguments are its own to check.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops._library import REDUCTIONS

__all__ = [
    "check_importance",
    "check_reduction",
    "check_smoothing",
    "check_tensors",
    "check_transition",
    "validate_batch",
    "validate_labels",
]


# Accumulated in float32 or float64 without a loss of digits. The types of eight bits are not:
# torch itself computes nothing with them.
FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_tensors(**arguments: Any) -> None:
    """Raise for arrays, lists and tensors that are not dense, and say what to pass instead."""
    for name, value in arguments.items():
        if value is not None and not isinstance(value, Tensor):
            kind = type(value)
            raise TypeError(
                f"{name} must be a torch.Tensor; got {kind.__module__}.{kind.__qualname__}: pass "
                f"torch.as_tensor({name})."
            )
        if value is not None and (value.layout is not torch.strided or value.is_quantized):
            found = value.dtype if value.is_quantized else value.layout
            dense = "dequantize" if value.is_quantized else "to_dense"
            raise TypeError(f"{name} must be a dense tensor; got {found}: pass {name}.{dense}().")


def check_reduction(reduction: str) -> None:
    """Raise for a reduction that F.cross_entropy does not have."""
    if reduction not in REDUCTIONS:
        raise ValueError(f'reduction must be "none", "mean" or "sum"; got {reduction!r}.')


def check_smoothing(smoothing: float) -> None:
    """Raise for an ε outside 0 … 1."""
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and less than 1; got {smoothing}.")


def check_importance(importance: str, max_importance: float | None) -> None:
    """Raise for options that reweight_loss does not have."""
    if importance not in ("detached", "attached"):
        raise ValueError(f'importance must be "detached" or "attached"; got {importance!r}.')
    if max_importance is not None and not max_importance > 0:
        raise ValueError(f"max_importance must be positive or None; got {max_importance}.")


def check_transition(weights: Tensor | None, parts: Tensor, slack: Tensor | None) -> None:
    """Shapes and types of what makes T(x), for `transition_matrix`, which is no operator."""
    check_tensors(weights=weights, parts=parts, slack=slack)
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
        if tensor is not None and tensor.dtype not in FLOATING:
            raise TypeError(
                f"{name} must be float32, float64, float16 or bfloat16; got {tensor.dtype}."
            )


def validate_batch(weights: Tensor | None, parts: Tensor, slack: Tensor | None) -> None:
    """Raise for weights and parts whose rows are not on the simplex, and non-finite slack."""
    if torch.compiler.is_compiling():
        raise ValueError(
            "validate=True reads values, which torch.compile cannot: leave it out there."
        )
    if weights is not None:
        _raise_for(weights, ~torch.isfinite(weights) | (weights < 0), "weights", "finite and >= 0")
        _check_sums(weights, "weights")
    _raise_for(parts, ~torch.isfinite(parts) | (parts < 0), "parts", "finite and >= 0")
    _check_sums(parts, "parts")
    if slack is not None:
        _raise_for(slack, ~torch.isfinite(slack), "slack", "finite")


def validate_labels(noisy_labels: Tensor, logits: Tensor, ignore_index: int) -> None:
    """Raise for labels outside 0 … C−1 other than `ignore_index`."""
    if logits.dim() != 2:
        return  # the operator says so
    classes = logits.shape[1]
    bad = (noisy_labels < 0) | (noisy_labels >= classes)
    bad &= noisy_labels != ignore_index
    _raise_for(noisy_labels, bad, "noisy_labels", f"0 to {classes - 1} or ignore_index")


def _check_sums(tensor: Tensor, name: str) -> None:
    """Rows must sum to one, up to the rounding of their type and what estimates leave."""
    if tensor.dim() == 0 or tensor.shape[-1] == 0:
        return  # the operator says so
    sums = tensor.double().sum(-1)
    close = max(1e-3, torch.finfo(tensor.dtype).eps * tensor.shape[-1] ** 0.5)
    bad = (sums - 1).abs() > close
    if not bad.any():
        return
    where = bad.nonzero()[0].tolist()
    index = ", ".join(map(str, where))
    raise ValueError(
        f"{name} must have rows that sum to 1; {name}[{index}] sums to "
        f"{sums[tuple(where)].item():.6g}."
    )


def _raise_for(tensor: Tensor, bad: Tensor, name: str, expected: str) -> None:
    if not bad.any():
        return
    where = bad.nonzero()[0].tolist()
    value = tensor[tuple(where)].item()
    index = ", ".join(map(str, where))
    raise ValueError(f"{name} must be {expected}; {name}[{index}] is {value}.")
