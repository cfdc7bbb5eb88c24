"""Gradient rules of the fused operators, shared by eager code, torch.compile and functorch.

The backward operator computes the gradients with respect to all inputs. Training on the CPU rarely
runs it: where it can, the forward pass already computes the loss together with its gradients, and
the backward pass scales them. Second derivatives differentiate the plain torch definition in
:mod:`ptd_ext.ops.reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops._library import REDUCTIONS, FusedOp

Setup = Callable[[Any, Sequence[Any], Sequence[Tensor]], None]


def forward_computes_gradients(
    op: FusedOp, logits: Tensor, options: tuple[Any, ...], needs: Sequence[bool]
) -> bool:
    """Return True if the forward pass can compute all gradients that are needed.

    They are gradients of the loss, which the backward pass multiplies by the gradient with respect
    to the loss. The gradient of slack is a sum over samples, so it needs a reduced loss.
    """
    need_logits, need_weights, need_parts, need_slack = needs
    return (
        op.with_gradients_op is not None
        and need_logits
        and not (need_weights or need_parts)
        and not (need_slack and options[2] == REDUCTIONS["none"])
        and logits.is_cpu
    )


def backward(
    op: FusedOp, ctx: Any, grad: Tensor, backward_op: Callable[..., Any] | None = None
) -> tuple[Tensor | None, ...]:
    """Gradients of all inputs, computed by one call of the backward operator."""
    needs = [ctx.needs_input_grad[p] for p in op.positions]
    gradients = (backward_op or op.backward_op)(grad, *ctx.saved_tensors, *ctx.options, *needs)
    return _place(ctx, op.positions, gradients)


def scale_gradients(op: FusedOp, ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of all inputs, from those of the loss that the forward pass computed."""
    *tensors, grad_logits, grad_slack = ctx.saved_tensors
    needs = [ctx.needs_input_grad[p] for p in op.positions]
    if torch.is_grad_enabled():  # create_graph: only the backward operator is differentiable
        _, *saved = op.forward_op(*tensors, *ctx.options)
        gradients = op.backward_op(grad, *tensors, *saved, *ctx.options, *needs)
        return _place(ctx, op.positions, gradients)
    grad_logits = grad_logits * (grad.unsqueeze(1) if grad.dim() else grad)
    if grad_logits.dtype != tensors[0].dtype:
        grad_logits = grad_logits.to(tensors[0].dtype)
    grad_slack = grad_slack * grad if needs[3] else None
    return _place(ctx, op.positions, (grad_logits, None, None, grad_slack))


def setup_contexts(op: FusedOp) -> tuple[Setup, Setup]:
    """Return `setup_context` of the operator and of its backward operator."""
    count = len(op.tensors)

    def setup(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
        ctx.save_for_backward(*inputs[:count], *output[1:])
        ctx.options = inputs[count : count + op.options]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    def setup_backward(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
        options = 1 + count + op.saved
        needs = options + op.options
        ctx.save_for_backward(*inputs[: 1 + count])
        ctx.options = inputs[options:needs]
        ctx.needs = inputs[needs : needs + 4]
        ctx.set_materialize_grads(False)

    return setup, setup_backward


def second_backward(op: FusedOp, ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of the backward operator, by differentiating the definition twice."""
    grad, *tensors = ctx.saved_tensors
    present = [p for p in op.positions if tensors[p] is not None]
    needed = [p for p, need in zip(op.positions, ctx.needs, strict=True) if need]

    def define(*leaves: Tensor) -> Tensor:
        filled = list(tensors)
        for p, leaf in zip(present, leaves, strict=True):
            filled[p] = leaf
        return op.define(*filled, *ctx.options)

    def gradients(grad: Tensor, *leaves: Tensor) -> list[Tensor]:
        _, vjp = torch.func.vjp(define, *leaves)
        found = dict(zip(present, vjp(grad), strict=True))
        return [found[p] for p in needed]

    outer = [g for g, need in zip(grads, ctx.needs, strict=True) if need]
    with torch.autocast(grad.device.type, enabled=False):  # the definition must stay exact
        first, vjp = torch.func.vjp(gradients, grad, *(tensors[p] for p in present))
        second = vjp(
            [torch.zeros_like(f) if g is None else g for f, g in zip(first, outer, strict=True)]
        )
    return _place(ctx, [0, *(1 + p for p in present)], second)


def _place(
    ctx: Any, positions: Sequence[int], gradients: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """One gradient for each input of an operator; None where it is not needed."""
    result: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
    for position, gradient in zip(positions, gradients, strict=True):
        if ctx.needs_input_grad[position]:
            result[position] = gradient
    return tuple(result)
