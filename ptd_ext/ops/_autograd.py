"""The gradients of the operators, attached once for every way there is to call them.

Eager code goes by an autograd.Function, torch.compile and torch.export by what is registered with
the dispatcher, functorch transforms by an autograd.Function that can be transformed; all three call
the same backward operator. Second derivatives are taken of the plain torch definition in
:mod:`ptd_ext.ops.reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops import reference
from ptd_ext.ops._library import FUSED_OPS, REDUCTIONS, FusedOp


def apply(op: FusedOp, tensors: tuple[Tensor | None, ...], options: tuple[Any, ...]) -> Tensor:
    """The operator's result, by the shortest way to it.

    The dispatcher's way through Python-registered gradients costs more than a small batch's
    arithmetic. Where nothing else is listening (a compiler, a functorch transform), the same
    gradients are attached directly.
    """
    if torch.compiler.is_compiling():
        asked = [tensors[p] is not None and tensors[p].requires_grad for p in op.positions]
        if torch.is_grad_enabled() and _gradients_early(op, tensors[0], options, asked):
            return op.gradients_op(*tensors, *options, asked[3])[0]
        return op.forward_op(*tensors, *options)[0]
    if torch._C._are_functorch_transforms_active():
        return _transformed(op).apply(*tensors, *options)[0]
    return _DIRECT[op.name](*tensors, options, torch.is_grad_enabled())


def apply_projection(matrix: Tensor) -> Tensor:
    """The result of project_transition, likewise."""
    if torch._C._are_functorch_transforms_active():
        return reference.project_transition(matrix)  # which can be transformed in every way
    if torch.compiler.is_compiling():
        return torch.ops.ptd_ext.project_transition(matrix)
    return _Projection.apply(matrix)


def register_gradients() -> None:
    """Tell the dispatcher about the gradients of the operators on transition matrices."""
    for op in FUSED_OPS:
        _register_gradients(op)
    _register_project_transition()


# ---- One operator


def _backward(
    op: FusedOp, ctx: Any, grad: Tensor, backward_op: Callable[..., Any] | None = None
) -> tuple[Tensor | None, ...]:
    """Gradients of all inputs, computed by one call of the backward operator."""
    asked = [ctx.needs_input_grad[p] for p in op.positions]
    gradients = (backward_op or op.backward_op)(grad, *ctx.saved_tensors, *ctx.options, *asked)
    return _at_inputs(op, ctx, gradients)


def _at_inputs(
    op: FusedOp, ctx: Any, gradients: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """One gradient for each input of the operator; None where none is asked for."""
    result: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
    for at, gradient in zip(op.positions, gradients, strict=True):
        if ctx.needs_input_grad[at]:
            result[at] = gradient
    return tuple(result)


def _gradients_early(
    op: FusedOp, logits: Tensor, options: tuple[Any, ...], asked: list[bool]
) -> bool:
    """Return True if the operator can compute all gradients that are asked for in its forward pass.

    They are then gradients of the loss, still to be multiplied by the gradient of what follows.
    The sum over samples in the gradient of slack can be taken beforehand only for a reduced loss.
    """
    of_logits, of_weights, of_parts, of_slack = asked
    return (
        op.gradients_op is not None
        and of_logits
        and not (of_weights or of_parts)
        and not (of_slack and options[2] == REDUCTIONS["none"])
        and logits.is_cpu
    )


def _multiply(op: FusedOp, ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of all inputs, from those of the loss that the forward pass computed."""
    *tensors, of_logits, of_slack = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph: only the backward operator is differentiable
        _, *saved = op.forward_op(*tensors, *ctx.options)
        asked = [ctx.needs_input_grad[p] for p in op.positions]
        gradients = op.backward_op(grad, *tensors, *saved, *ctx.options, *asked)
        return _at_inputs(op, ctx, gradients)
    of_logits = of_logits * (grad.unsqueeze(1) if grad.dim() else grad)
    if of_logits.dtype != tensors[0].dtype:
        of_logits = of_logits.to(tensors[0].dtype)
    asked_slack = ctx.needs_input_grad[op.positions[3]]
    return _at_inputs(op, ctx, (of_logits, None, None, of_slack * grad if asked_slack else None))


def _context(op: FusedOp) -> tuple[Callable[..., None], Callable[..., None], Callable[..., Any]]:
    """Return `setup_context` of the operator and of its backward, and the latter's gradient."""
    count = len(op.tensors)

    def setup(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
        ctx.save_for_backward(*inputs[:count], *output[1:])
        ctx.options = inputs[count : count + op.options]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    def setup_second(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
        options = 1 + count + op.saved
        needs = options + op.options
        ctx.save_for_backward(*inputs[: 1 + count])
        ctx.options = inputs[options:needs]
        ctx.needs = inputs[needs : needs + 4]
        ctx.set_materialize_grads(False)

    def second(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return _second_backward(op, ctx, grads)

    return setup, setup_second, second


def _register_gradients(op: FusedOp) -> None:
    setup, setup_second, second = _context(op)
    name = f"ptd_ext::{op.name}"
    torch.library.register_autograd(
        name, lambda ctx, grad, *_: _backward(op, ctx, grad), setup_context=setup
    )
    torch.library.register_autograd(f"{name}_backward", second, setup_context=setup_second)
    _register_vmap(name)
    _register_vmap(f"{name}_backward")
    if op.gradients_op is None:
        return
    torch.library.register_autograd(
        f"{name}_gradients", lambda ctx, grad, *_: _multiply(op, ctx, grad), setup_context=setup
    )
    _register_vmap(f"{name}_gradients")


def _second_backward(
    op: FusedOp, ctx: Any, grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradient of the backward operator, by differentiating the definition twice."""
    grad, *tensors = ctx.saved_tensors
    at = [p for p in op.positions if tensors[p] is not None]
    needed = [p for p, need in zip(op.positions, ctx.needs, strict=True) if need]

    def define(*leaves: Tensor) -> Tensor:
        filled = list(tensors)
        for p, leaf in zip(at, leaves, strict=True):
            filled[p] = leaf
        return op.define(*filled, *ctx.options)

    def gradients(grad: Tensor, *leaves: Tensor) -> list[Tensor]:
        _, pull = torch.func.vjp(define, *leaves)
        found = dict(zip(at, pull(grad), strict=True))
        return [found[p] for p in needed]

    outer = [g for g, need in zip(grads, ctx.needs, strict=True) if need]
    with torch.autocast(grad.device.type, enabled=False):  # the definition is to be taken exactly
        first, pull = torch.func.vjp(gradients, grad, *(tensors[p] for p in at))
        second = pull(
            [torch.zeros_like(f) if g is None else g for f, g in zip(first, outer, strict=True)]
        )
    result: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
    for p, value in zip([0, *(1 + p for p in at)], second, strict=True):
        if ctx.needs_input_grad[p]:
            result[p] = value
    return tuple(result)


def _register_project_transition() -> None:
    def setup(ctx: Any, inputs: Sequence[Any], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    def first(ctx: Any, grad: Tensor) -> Tensor:
        return torch.ops.ptd_ext.project_transition_backward(grad, *ctx.saved_tensors)

    def second(ctx: Any, outer: Tensor) -> tuple[Tensor, ...]:
        def gradient(grad: Tensor, matrix: Tensor) -> Tensor:
            return torch.func.vjp(reference.project_transition, matrix)[1](grad)[0]

        return torch.func.vjp(gradient, *ctx.saved_tensors)[1](outer)

    name = "ptd_ext::project_transition"
    torch.library.register_autograd(name, first, setup_context=setup)
    torch.library.register_autograd(f"{name}_backward", second, setup_context=setup)
    _register_vmap(name)
    _register_vmap(f"{name}_backward")


# ---- Eager code


def _direct(op: FusedOp) -> Callable[..., Tensor]:
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *tensors, options, grad_enabled = arguments
        asked = [ctx.needs_input_grad[p] for p in op.positions]
        ctx.options = options
        ctx.early = grad_enabled and _gradients_early(op, tensors[0], options, asked)
        with torch._C._AutoDispatchBelowAutograd():
            if ctx.early:
                result, *saved = op.gradients_op(*tensors, *options, asked[3])
            else:
                result, *saved = op.forward_op(*tensors, *options)
        ctx.save_for_backward(*tensors, *saved)
        return result

    def back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.early:
            return _multiply(op, ctx, grad)
        if torch.is_grad_enabled():  # create_graph: this gradient is differentiated in turn
            return _backward(op, ctx, grad)
        with torch._C._AutoDispatchBelowAutograd():
            return _backward(op, ctx, grad)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(back)}
    function = type(op.name, (torch.autograd.Function,), methods)
    # Function.apply looks for functorch's wrappers first, which `apply` has ruled out.
    return super(torch.autograd.Function, function).apply  # type: ignore[misc]


class _Projection(torch.autograd.Function):
    """project_transition; unlike the bare operator it raises in forward-mode differentiation."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        ctx.save_for_backward(matrix)
        return torch.ops.ptd_ext.project_transition(matrix)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return torch.ops.ptd_ext.project_transition_backward(grad, *ctx.saved_tensors)


_DIRECT = {op.name: _direct(op) for op in FUSED_OPS}


# ---- functorch transforms


@cache
def _transformed(op: FusedOp) -> type[torch.autograd.Function]:
    """The forward operator inside functorch transforms: grad, vmap, and one in the other.

    Gradients registered with the dispatcher cannot be nested in a vmap; an autograd.Function that
    keeps its context apart from its computation can. The result comes first.
    """
    setup, setup_second, second = _context(op)
    back = _function(f"{op.name}_backward", op.backward_op, setup_second, second)

    def first(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        return _backward(op, ctx, grad, back.apply)

    return _function(op.name, op.forward_op, setup, first)


def _function(
    name: str, op: Callable[..., Any], setup: Callable[..., None], back: Callable[..., Any]
) -> type[torch.autograd.Function]:
    class Transformed(torch.autograd.Function):
        forward = staticmethod(op)
        setup_context = staticmethod(setup)
        backward = staticmethod(back)

        @staticmethod
        def vmap(info: Any, in_dims: Sequence[int | None], *arguments: Any) -> tuple[Any, Any]:
            return _one_by_one(Transformed.apply, info.batch_size, in_dims, arguments)

    Transformed.__name__ = Transformed.__qualname__ = name
    return Transformed


def _one_by_one(
    function: Callable[..., Any],
    batch_size: int,
    in_dims: Sequence[int | None],
    args: Sequence[Any],
) -> tuple[Any, Any]:
    """Map by one call per element: right for every combination of arguments, and no faster."""
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


def _register_vmap(name: str) -> None:
    op = getattr(torch.ops.ptd_ext, name.removeprefix("ptd_ext::")).default

    def vmap(info: Any, in_dims: Sequence[int | None], *args: Any) -> tuple[Any, Any]:
        return _one_by_one(op, info.batch_size, in_dims, args)

    torch.library.register_vmap(name, vmap)
