"""Registers the shapes, the gradients and the vmap rules of the operators on the simplex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

NOT_DIFFERENTIABLE = (
    "simplex_weights is not differentiable: detach its inputs, or call it under torch.no_grad()."
)


def register_simplex() -> None:
    """Tell torch about them; called once, after the library is loaded."""
    _register_projection()
    _register_weights()
    _register_least_squares()


def _register_projection() -> None:
    ops = torch.ops.ptd_ext
    name = "ptd_ext::simplex_projection"

    def setup(ctx: Any, inputs: Sequence[Any], output: Tensor) -> None:
        ctx.save_for_backward(output)

    def setup_second(ctx: Any, inputs: Sequence[Any], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    def first(ctx: Any, grad: Tensor) -> Tensor:
        return ops.simplex_projection_backward(grad, *ctx.saved_tensors)

    def second(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # The Jacobian is symmetric, and constant wherever the support is.
        return ops.simplex_projection_backward(grad, *ctx.saved_tensors), None

    torch.library.register_fake(name, lambda x: x.new_empty(x.shape))
    torch.library.register_fake(f"{name}_backward", lambda grad, p: p.new_empty(p.shape))
    torch.library.register_autograd(name, first, setup_context=setup)
    torch.library.register_autograd(f"{name}_backward", second, setup_context=setup_second)

    # Rows are rows: a mapped dimension is one more leading dimension.
    def vmap(info: Any, in_dims: Sequence[int | None], x: Tensor) -> tuple[Tensor, int]:
        return ops.simplex_projection(x.movedim(in_dims[0], 0)), 0

    def vmap_backward(
        info: Any, in_dims: Sequence[int | None], *args: Tensor
    ) -> tuple[Tensor, int]:
        both = (
            arg.expand(info.batch_size, *arg.shape) if dim is None else arg.movedim(dim, 0)
            for arg, dim in zip(args, in_dims, strict=True)
        )
        return ops.simplex_projection_backward(*both), 0

    torch.library.register_vmap(name, vmap)
    torch.library.register_vmap(f"{name}_backward", vmap_backward)


def _register_weights() -> None:
    def not_differentiable(ctx: Any, grad: Tensor) -> None:
        raise RuntimeError(NOT_DIFFERENTIABLE)

    def fake(contraction, step, shift, linear, start, steps, tolerance):
        return linear.new_empty(linear.shape)

    torch.library.register_fake("ptd_ext::simplex_weights", fake)
    torch.library.register_autograd("ptd_ext::simplex_weights", not_differentiable)


def _register_least_squares() -> None:
    def not_differentiable(ctx: Any, grad: Tensor) -> None:
        raise RuntimeError("simplex_least_squares is not differentiable: detach its inputs.")

    name = "ptd_ext::simplex_least_squares"
    torch.library.register_fake(name, lambda gram, right: right.new_empty(right.shape))
    torch.library.register_autograd(name, not_differentiable)
