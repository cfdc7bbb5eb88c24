"""The operators with their gradients, for every way there is to call them.

Eager code calls an autograd.Function, torch.compile and torch.export the operators with the
gradients registered here, functorch transforms the Functions of :mod:`ptd_ext.ops._transforms`. All
three use the rules of :mod:`ptd_ext.ops._gradients`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops._gradients import (
    backward,
    forward_computes_gradients,
    scale_gradients,
    second_backward,
    setup_contexts,
)
from ptd_ext.ops._library import FUSED_OPS, FusedOp
from ptd_ext.ops._transforms import register_vmap, transformed


def apply(op: FusedOp, tensors: tuple[Tensor | None, ...], options: tuple[Any, ...]) -> Tensor:
    """Return the operator's result, by the shortest way to it.

    Calling Python-registered gradients through the dispatcher costs more than the arithmetic of a
    small batch. Unless a compiler or a functorch transform is active, the same gradients are
    attached directly.
    """
    if torch.compiler.is_compiling():
        needs = [tensors[p] is not None and tensors[p].requires_grad for p in op.positions]
        if torch.is_grad_enabled() and forward_computes_gradients(op, tensors[0], options, needs):
            return op.with_gradients_op(*tensors, *options, needs[3])[0]
        return op.forward_op(*tensors, *options)[0]
    if torch._C._are_functorch_transforms_active():
        return transformed(op).apply(*tensors, *options)[0]
    return _EAGER[op.name](*tensors, options, torch.is_grad_enabled())


def register_gradients() -> None:
    """Register the gradients of the operators on transition matrices with the dispatcher."""
    for op in FUSED_OPS:
        _register_op(op)


def _eager(op: FusedOp) -> Callable[..., Tensor]:
    """Return the operator as an autograd.Function, called without the dispatcher's autograd."""

    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *tensors, options, grad_enabled = arguments
        needs = [ctx.needs_input_grad[p] for p in op.positions]
        ctx.options = options
        ctx.has_gradients = grad_enabled and forward_computes_gradients(
            op, tensors[0], options, needs
        )
        with torch._C._AutoDispatchBelowAutograd():
            if ctx.has_gradients:  # a loss in training, on the CPU
                result, *saved = op.with_gradients_op(*tensors, *options, needs[3])
            else:
                result, *saved = op.forward_op(*tensors, *options)
        ctx.save_for_backward(*tensors, *saved)
        return result

    def back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.has_gradients:
            return scale_gradients(op, ctx, grad)
        if torch.is_grad_enabled():  # create_graph: this gradient is differentiated in turn
            return backward(op, ctx, grad)
        with torch._C._AutoDispatchBelowAutograd():
            return backward(op, ctx, grad)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(back)}
    function = type(op.name, (torch.autograd.Function,), methods)
    # Function.apply looks for functorch's wrappers first, which `apply` has excluded.
    return super(torch.autograd.Function, function).apply


_EAGER = {op.name: _eager(op) for op in FUSED_OPS}


def _register_op(op: FusedOp) -> None:
    setup, setup_backward = setup_contexts(op)
    differentiate = partial(second_backward, op)
    rules = {
        "": (lambda ctx, grad, *_: backward(op, ctx, grad), setup),
        "_backward": (differentiate, setup_backward),
    }
    if op.with_gradients_op is not None:
        rules["_with_gradients"] = (lambda ctx, grad, *_: scale_gradients(op, ctx, grad), setup)
    for suffix, (rule, setup_context) in rules.items():
        name = f"ptd_ext::{op.name}{suffix}"
        torch.library.register_autograd(name, rule, setup_context=setup_context)
        register_vmap(name)
