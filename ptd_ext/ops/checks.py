"""Checks of options, of arguments that no operator sees, and of values on request.

The operators check the shapes and types of their own arguments.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops._library import REDUCTIONS

# Types that convert to float32 or float64 exactly. The eight-bit types are left out: torch has no
# arithmetic for them.
FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_tensors(**arguments: Any) -> None:
    """Raise for arrays, lists and tensors that are not dense; the message names the conversion."""
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
    """Raise unless the reduction is one of those of F.cross_entropy."""
    if reduction not in REDUCTIONS:
        raise ValueError(f'reduction must be "none", "mean" or "sum"; got {reduction!r}.')


def check_smoothing(smoothing: float) -> None:
    """Raise unless 0 ≤ ε < 1."""
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and less than 1; got {smoothing}.")


def check_importance(importance: str, max_importance: float | None) -> None:
    """Raise unless the options are those of reweight_loss."""
    if importance not in ("detached", "attached"):
        raise ValueError(f'importance must be "detached" or "attached"; got {importance!r}.')
    if max_importance is not None and not max_importance > 0:
        raise ValueError(f"max_importance must be positive or None; got {max_importance}.")


def check_transition(weights: Tensor | None, parts: Tensor, slack: Tensor | None) -> None:
    """Check shapes and types for `transition_matrix`, which is not an operator."""
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
    check_floating(weights=weights, parts=parts, slack=slack)


def check_floating(**tensors: Tensor | None) -> None:
    """Raise for types that are not among FLOATING."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype not in FLOATING:
            raise TypeError(
                f"{name} must be float32, float64, float16 or bfloat16; got {tensor.dtype}."
            )


def validate_batch(weights: Tensor | None, parts: Tensor, slack: Tensor | None) -> None:
    """Raise for weights and parts whose rows are not on the simplex, and non-finite slack."""
    if torch.compiler.is_compiling():
        raise ValueError(
            "validate must be False under torch.compile, which cannot read values; got True."
        )
    if weights is not None:
        _raise_for(
            weights, ~torch.isfinite(weights) | (weights < 0), "weights", "be finite and >= 0"
        )
        _check_sums(weights, "weights")
    _raise_for(parts, ~torch.isfinite(parts) | (parts < 0), "parts", "be finite and >= 0")
    _check_sums(parts, "parts")
    if slack is not None:
        _raise_for(slack, ~torch.isfinite(slack), "slack", "be finite")


def validate_labels(noisy_labels: Tensor, logits: Tensor, ignore_index: int) -> None:
    """Raise for labels outside 0 … C−1 other than `ignore_index`."""
    if logits.dim() != 2:
        return  # the operator raises
    classes = logits.shape[1]
    bad = (noisy_labels < 0) | (noisy_labels >= classes)
    bad &= noisy_labels != ignore_index
    _raise_for(noisy_labels, bad, "noisy_labels", f"be from 0 to {classes - 1}, or ignore_index")


def _check_sums(tensor: Tensor, name: str) -> None:
    """Raise unless rows sum to one, within the rounding of their type and of estimates."""
    if tensor.dim() == 0 or tensor.shape[-1] == 0:
        return  # the operator raises
    sums = tensor.double().sum(-1)
    close = max(1e-3, torch.finfo(tensor.dtype).eps * tensor.shape[-1] ** 0.5)
    bad = (sums - 1).abs() > close
    _raise_for(sums, bad, name, "have rows that sum to 1", "sums to {:.6g}")


def _raise_for(values: Tensor, bad: Tensor, name: str, expected: str, found: str = "is {}") -> None:
    if bad.any():
        where = bad.nonzero()[0].tolist()
        value = found.format(values[tuple(where)].item())
        raise ValueError(f"{name} must {expected}; {name}[{', '.join(map(str, where))}] {value}.")
