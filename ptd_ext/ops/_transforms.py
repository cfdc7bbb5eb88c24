"""The fused operators inside functorch transforms: grad, vmap, and one in the other.

Gradients registered with the dispatcher cannot be nested in a vmap; an autograd.Function that keeps
its context apart from its computation can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops._register import (
    FusedOp,
    backward,
    one_by_one,
    second_backward,
    set_second_context,
)


@cache
def transformed(op: FusedOp) -> type[torch.autograd.Function]:
    """The forward operator; its result comes first."""
    count = len(op.tensors)

    def setup(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
        ctx.save_for_backward(*inputs[:count], *output[1:])
        ctx.options = inputs[count:]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    def first(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        return backward(op, ctx, grad, _transformed_backward(op).apply)

    return _function(op.name, op.forward_op, setup, first)


@cache
def _transformed_backward(op: FusedOp) -> type[torch.autograd.Function]:
    def setup(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
        set_second_context(op, ctx, inputs)

    def second(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return second_backward(op, ctx, grads)

    return _function(f"{op.name}_backward", op.backward_op, setup, second)


def _function(
    name: str, op: Callable[..., Any], setup: Callable[..., None], back: Callable[..., Any]
) -> type[torch.autograd.Function]:
    class Transformed(torch.autograd.Function):
        forward = staticmethod(op)
        setup_context = staticmethod(setup)
        backward = staticmethod(back)

        @staticmethod
        def vmap(info: Any, in_dims: Sequence[int | None], *arguments: Any) -> tuple[Any, Any]:
            return one_by_one(Transformed.apply, info.batch_size, in_dims, arguments)

    Transformed.__name__ = Transformed.__qualname__ = name
    return Transformed
