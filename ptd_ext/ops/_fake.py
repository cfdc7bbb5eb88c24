"""Shapes, types and layouts of the operators' results, for torch.compile and torch.export."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops._library import (
    CLEAN_POSTERIOR,
    FUSED_OPS,
    NOISY_POSTERIOR,
    REDUCTIONS,
    TRANSITION_LOSS,
    FusedOp,
)


def register_fakes() -> None:
    """Register the results of the operators on transition matrices."""
    torch.library.register_fake("ptd_ext::transition_loss", _fake_transition_loss)
    torch.library.register_fake(
        "ptd_ext::transition_loss_with_gradients", _fake_loss_with_gradients
    )
    torch.library.register_fake("ptd_ext::clean_posterior", _fake_clean_posterior)
    torch.library.register_fake("ptd_ext::noisy_posterior", _fake_noisy_posterior)
    for op in FUSED_OPS:
        torch.library.register_fake(f"ptd_ext::{op.name}_backward", partial(_fake_gradients, op))


def _check_devices(op: FusedOp, tensors: Sequence[Tensor | None]) -> None:
    device = tensors[0].device
    for name, tensor in zip(op.tensors, tensors, strict=True):
        if tensor is not None and tensor.device != device:
            raise RuntimeError(
                f"{op.name}: {name} must be on the device of logits, {device}; got {tensor.device}."
            )


def _fake_transition_loss(logits, noisy_labels, weights, parts, slack, class_weight, *options):
    tensors = (logits, noisy_labels, weights, parts, slack, class_weight)
    _check_devices(TRANSITION_LOSS, tensors)
    reduction = options[2]
    loss = parts.new_empty([logits.shape[0]] if reduction == REDUCTIONS["none"] else [])
    return loss, parts.new_empty([]), _fake_saved_column(logits, parts, slack)


def _fake_loss_with_gradients(*arguments):
    *inputs, need_slack = arguments
    loss, _, _ = _fake_transition_loss(*inputs)
    logits, parts, slack = (inputs[at] for at in (0, 3, 4))
    grad_slack = _like_slack(slack) if need_slack else parts.new_empty([0])
    return loss, parts.new_empty(logits.shape), grad_slack


def _fake_clean_posterior(logits, noisy_labels, weights, parts, slack, *options):
    _check_devices(CLEAN_POSTERIOR, (logits, noisy_labels, weights, parts, slack))
    return parts.new_empty(logits.shape), _fake_saved_column(logits, parts, slack)


def _fake_saved_column(logits: Tensor, parts: Tensor, slack: Tensor | None) -> Tensor:
    # A GPU computes the column again in less time than it takes to read it back.
    kept = slack is not None or logits.device.type != "cuda"
    return parts.new_empty(logits.shape if kept else [0])


def _fake_noisy_posterior(logits, weights, parts, slack):
    _check_devices(NOISY_POSTERIOR, (logits, weights, parts, slack))
    saved = parts.new_empty([0] if slack is None else logits.shape)
    return parts.new_empty(logits.shape), saved


def _fake_gradients(op: FusedOp, *arguments: Any) -> tuple[Tensor, ...]:
    """Gradients in the layouts the kernels write; those that are not needed are empty."""
    logits, weights, parts, slack = (arguments[1 + at] for at in op.positions)
    first = 1 + len(op.tensors) + op.saved + op.options
    need_logits, need_weights, need_parts, need_slack = arguments[first : first + 4]
    classes = logits.shape[1]
    layout = (classes, 1, parts.shape[0] * classes) if parts.dim() == 3 else (1, classes)
    empty = parts.new_empty
    return (
        logits.new_empty(logits.shape) if need_logits else empty([0]),
        empty(weights.shape) if need_weights else empty([0]),
        parts.new_empty_strided(parts.shape, layout) if need_parts else empty([0]),
        _like_slack(slack) if need_slack else empty([0]),
    )


def _like_slack(slack: Tensor) -> Tensor:
    by_column = slack.stride() == (1, slack.shape[0])
    return slack.new_empty_strided(
        slack.shape, (1, slack.shape[0]) if by_column else (slack.shape[0], 1)
    )
