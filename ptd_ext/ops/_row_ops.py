"""The operators on rows: the two projections with their gradients, and those without a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops import reference

NOT_DIFFERENTIABLE = (
    "simplex_weights is not differentiable: detach its inputs, or call it under torch.no_grad()."
)


class RowOp:
    """An operator on rows, its backward operator and its definition.

    Args:
        name: the name of the operator.
        define: the definition in plain torch, which supports every functorch transform.
        second: takes an outer gradient and the arguments of the backward operator, and returns the
            gradients of these arguments.
        saved: the name of the tensor that the backward operator needs.
        saves_result: whether that is the result of the operator; otherwise it is the input.
    """

    def __init__(
        self,
        name: str,
        define: Callable[[Tensor], Tensor],
        second: Callable[..., tuple[Tensor | None, ...]],
        saved: str,
        *,
        saves_result: bool,
    ) -> None:
        self.name, self.define, self.second, self.saved = name, define, second, saved
        self.saves_result = saves_result
        op = self.op = getattr(torch.ops.ptd_ext, name)
        backward_op = self.backward_op = getattr(torch.ops.ptd_ext, f"{name}_backward")

        class Eager(torch.autograd.Function):
            """Unlike the bare operator it raises an error in forward-mode differentiation."""

            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                result = op(x)
                ctx.save_for_backward(result if saves_result else x)
                return result

            @staticmethod
            def backward(ctx: Any, grad: Tensor) -> Tensor:
                return backward_op(grad, *ctx.saved_tensors)

        self._eager = Eager.apply

    def __call__(self, x: Tensor) -> Tensor:
        """Return the result, by the shortest way to it; see `_autograd.apply`."""
        if torch._C._are_functorch_transforms_active():
            return self.define(x)
        return self.op(x) if torch.compiler.is_compiling() else self._eager(x)

    def register(self) -> None:
        """Register shapes, gradients and vmap rules with the dispatcher."""

        def setup(ctx: Any, inputs: Sequence[Tensor], output: Tensor) -> None:
            ctx.save_for_backward(output if self.saves_result else inputs[0])

        def setup_second(ctx: Any, inputs: Sequence[Tensor], output: Tensor) -> None:
            ctx.save_for_backward(*inputs)

        def first(ctx: Any, grad: Tensor) -> Tensor:
            return self.backward_op(grad, *ctx.saved_tensors)

        def second(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
            return self.second(outer, *ctx.saved_tensors)

        name = f"ptd_ext::{self.name}"
        torch.library.register_fake(name, lambda x: x.new_empty(x.shape))
        torch.library.register_fake(f"{name}_backward", self._fake_gradient)
        torch.library.register_autograd(name, first, setup_context=setup)
        torch.library.register_autograd(f"{name}_backward", second, setup_context=setup_second)
        for op in (self.op, self.backward_op):
            torch.library.register_vmap(f"ptd_ext::{op.__name__}", _vmap_rule(op))

    def _fake_gradient(self, grad: Tensor, saved: Tensor) -> Tensor:
        if grad.device != saved.device:
            raise RuntimeError(
                f"{self.name}_backward: grad must be on the device of {self.saved}, "
                f"{saved.device}; got {grad.device}."
            )
        return saved.new_empty(saved.shape)


def _vmap_rule(op: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, int]]:
    def vmap(info: Any, in_dims: Sequence[int | None], *args: Tensor) -> tuple[Tensor, int]:
        # A mapped dimension is one more leading dimension of rows.
        leading = (
            arg.expand(info.batch_size, *arg.shape) if dim is None else arg.movedim(dim, 0)
            for arg, dim in zip(args, in_dims, strict=True)
        )
        return op(*leading), 0

    return vmap


def _second_of_transition(outer: Tensor, grad: Tensor, matrix: Tensor) -> tuple[Tensor, ...]:
    def gradient(grad: Tensor, matrix: Tensor) -> Tensor:
        return torch.func.vjp(reference.project_transition, matrix)[1](grad)[0]

    return torch.func.vjp(gradient, grad, matrix)[1](outer)


def _second_of_simplex(outer: Tensor, grad: Tensor, projected: Tensor) -> tuple[Tensor, None]:
    # The Jacobian is symmetric, and constant wherever the support is.
    return torch.ops.ptd_ext.simplex_projection_backward(outer, projected), None


PROJECT_TRANSITION = RowOp(
    "project_transition",
    reference.project_transition,
    _second_of_transition,
    "matrix",
    saves_result=False,
)
SIMPLEX_PROJECTION = RowOp(
    "simplex_projection",
    reference.simplex_projection,
    _second_of_simplex,
    "projected",
    saves_result=True,
)


def register_row_ops() -> None:
    """Register the operators with torch; called once, after the library is loaded."""
    PROJECT_TRANSITION.register()
    SIMPLEX_PROJECTION.register()
    _register_without_gradient(
        "simplex_weights",
        lambda contraction, step, shift, linear, *_: linear.new_empty(linear.shape),
        NOT_DIFFERENTIABLE,
    )
    _register_without_gradient(
        "simplex_least_squares",
        lambda gram, right: right.new_empty(right.shape),
        "simplex_least_squares is not differentiable: detach its inputs.",
    )
    _register_without_gradient(
        "invert_posterior",
        lambda probs, *_: probs.new_empty(probs.shape),
        "invert_posterior is not differentiable: detach its inputs.",
    )


def _register_without_gradient(name: str, fake: Callable[..., Tensor], message: str) -> None:
    def backward(ctx: Any, grad: Tensor) -> None:
        raise RuntimeError(message)

    torch.library.register_fake(f"ptd_ext::{name}", fake)
    torch.library.register_autograd(f"ptd_ext::{name}", backward)
