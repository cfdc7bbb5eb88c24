"""The operators inside functorch transforms: grad, vmap, and one in the other.

Gradients registered with the dispatcher cannot be nested in a vmap; an autograd.Function that keeps
its context apart from its computation can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops._gradients import backward, second_backward, setup_contexts
from ptd_ext.ops._library import FusedOp


@cache
def transformed(op: FusedOp) -> type[torch.autograd.Function]:
    """The forward operator as a Function that can be transformed; its result comes first."""
    setup, setup_backward = setup_contexts(op)
    differentiate = partial(second_backward, op)
    back = _function(f"{op.name}_backward", op.backward_op, setup_backward, differentiate)

    def first(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        return backward(op, ctx, grad, back.apply)

    return _function(op.name, op.forward_op, setup, first)


def register_vmap(name: str) -> None:
    """Register a vmap rule for an operator that has none of its own."""
    op = getattr(torch.ops.ptd_ext, name.removeprefix("ptd_ext::")).default

    def vmap(info: Any, in_dims: Sequence[int | None], *args: Any) -> tuple[Any, Any]:
        return map_one_by_one(op, info.batch_size, in_dims, args)

    torch.library.register_vmap(name, vmap)


def map_one_by_one(
    function: Callable[..., Any],
    batch_size: int,
    in_dims: Sequence[int | None],
    args: Sequence[Any],
) -> tuple[Any, Any]:
    """Map by one call per element: correct for every combination of arguments, and no faster."""
    if batch_size == 0:
        raise ValueError("vmap over an empty batch is not supported.")
    results = []
    for index in range(batch_size):
        element = (
            arg if dim is None else arg.select(dim, index)
            for arg, dim in zip(args, in_dims, strict=True)
        )
        results.append(function(*element))
    if isinstance(results[0], Tensor):
        return torch.stack(results), 0
    columns = tuple(torch.stack(column) for column in zip(*results, strict=True))
    return columns, (0,) * len(columns)


def _function(
    name: str, op: Callable[..., Any], setup: Callable[..., None], back: Callable[..., Any]
) -> type[torch.autograd.Function]:
    class Transformed(torch.autograd.Function):
        forward = staticmethod(op)
        setup_context = staticmethod(setup)
        backward = staticmethod(back)

        @staticmethod
        def vmap(info: Any, in_dims: Sequence[int | None], *args: Any) -> tuple[Any, Any]:
            return map_one_by_one(Transformed.apply, info.batch_size, in_dims, args)

    Transformed.__name__ = Transformed.__qualname__ = name
    return Transformed
