"""The differentiable operators: their arguments, and their definitions in plain torch.

Each takes tensors, then options, and returns its result, followed by the tensors that it saves for
its backward operator:

    name(*tensors, *options) -> (result, *saved)
    name_backward(grad, *tensors, *saved, *options, need_logits, need_weights, need_parts,
                  need_slack) -> gradients of logits, weights, parts, slack

On the CPU the loss has a third operator, the forward pass of training. It computes the loss and its
gradients in one pass, so that the backward pass only multiplies:

    name_with_gradients(*tensors, *options, need_slack) -> (result, grad_logits, grad_slack)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops import reference

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
FORWARD, DETACHED, ATTACHED = 0, 1, 2
DIFFERENTIABLE = ("logits", "weights", "parts", "slack")


class FusedOp:
    """An operator, its backward operator and its definition."""

    def __init__(self, name: str, tensors: tuple[str, ...], define: Callable[..., Tensor]) -> None:
        self.name = name
        self.tensors = tensors
        self.define = define  # (*tensors, *options) -> result, in plain torch
        self.forward_op = getattr(torch.ops.ptd_ext, name).default
        self.backward_op = getattr(torch.ops.ptd_ext, f"{name}_backward").default
        # Positions of the differentiable tensors among the arguments.
        self.positions = tuple(tensors.index(tensor) for tensor in DIFFERENTIABLE)
        schema = self.forward_op._schema
        self.saved = len(schema.returns) - 1
        self.options = len(schema.arguments) - len(tensors)
        with_gradients = getattr(torch.ops.ptd_ext, f"{name}_with_gradients", None)
        self.with_gradients_op = None if with_gradients is None else with_gradients.default


def _define_loss(
    logits: Tensor,
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None,
    class_weight: Tensor | None,
    importance: int,
    max_importance: float | None,
    reduction: int,
    ignore_index: int,
    smoothing: float,
) -> Tensor:
    common: dict[str, Any] = {
        "reduction": next(name for name, value in REDUCTIONS.items() if value == reduction),
        "ignore_index": ignore_index,
        "class_weight": class_weight,
        "smoothing": smoothing,
    }
    if importance != FORWARD:
        common["importance"] = "attached" if importance == ATTACHED else "detached"
        common["max_importance"] = max_importance
    loss = reference.forward_loss if importance == FORWARD else reference.reweight_loss
    return loss(logits, noisy_labels, weights, parts, slack, **common)


def _define_clean_posterior(*arguments: Any) -> Tensor:
    *tensors, ignore_index, smoothing = arguments
    return reference.clean_posterior(*tensors, ignore_index=ignore_index, smoothing=smoothing)


TRANSITION_LOSS = FusedOp(
    "transition_loss",
    ("logits", "noisy_labels", "weights", "parts", "slack", "class_weight"),
    _define_loss,
)
CLEAN_POSTERIOR = FusedOp(
    "clean_posterior",
    ("logits", "noisy_labels", "weights", "parts", "slack"),
    _define_clean_posterior,
)
NOISY_POSTERIOR = FusedOp(
    "noisy_posterior", ("logits", "weights", "parts", "slack"), reference.noisy_posterior
)

FUSED_OPS = (TRANSITION_LOSS, CLEAN_POSTERIOR, NOISY_POSTERIOR)
