"""Registers the shapes, the gradients and the vmap rules of the operators with torch.

Each differentiable operator takes some tensors, then options, and returns its result followed by
what its backward operator wants back:

    name(*tensors, *options) -> (result, *saved)
    name_backward(grad, *tensors, *saved, *options, need_logits, need_weights, need_parts,
                  need_slack) -> gradients of logits, weights, parts, slack

Second derivatives are taken of the plain torch definition in :mod:`ptd_ext.ops.reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops import reference
from ptd_ext.ops._register_simplex import register_simplex

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


def register() -> None:
    """Tell torch about every operator; called once, after the library is loaded."""
    torch.library.register_fake("ptd_ext::transition_loss", _fake_transition_loss)
    torch.library.register_fake("ptd_ext::clean_posterior", _fake_clean_posterior)
    torch.library.register_fake("ptd_ext::noisy_posterior", _fake_noisy_posterior)
    for op in (TRANSITION_LOSS, CLEAN_POSTERIOR, NOISY_POSTERIOR):
        _register_gradients(op)
    _register_project_transition()
    register_simplex()


# ---- Shapes


def _check_devices(op: FusedOp, tensors: Sequence[Tensor | None]) -> None:
    device = tensors[0].device
    for name, tensor in zip(op.tensors, tensors, strict=True):
        if tensor is not None and tensor.device != device:
            raise RuntimeError(
                f"{op.name}: {name} must be on the device of logits, {device}; it is on "
                f"{tensor.device}."
            )


def _fake_transition_loss(logits, noisy_labels, weights, parts, slack, class_weight, *options):
    tensors = (logits, noisy_labels, weights, parts, slack, class_weight)
    _check_devices(TRANSITION_LOSS, tensors)
    reduction = options[2]
    loss = parts.new_empty([logits.shape[0]] if reduction == REDUCTIONS["none"] else [])
    return loss, parts.new_empty([]), _fake_saved_column(logits, parts, slack)


def _fake_clean_posterior(logits, noisy_labels, weights, parts, slack, *options):
    _check_devices(CLEAN_POSTERIOR, (logits, noisy_labels, weights, parts, slack))
    return parts.new_empty(logits.shape), _fake_saved_column(logits, parts, slack)


def _fake_saved_column(logits: Tensor, parts: Tensor, slack: Tensor | None) -> Tensor:
    # A GPU forms the column again in less time than it takes to read it back.
    kept = slack is not None or logits.device.type != "cuda"
    return parts.new_empty(logits.shape if kept else [0])


def _fake_noisy_posterior(logits, weights, parts, slack):
    _check_devices(NOISY_POSTERIOR, (logits, weights, parts, slack))
    saved = parts.new_empty([0] if slack is None else logits.shape)
    return parts.new_empty(logits.shape), saved


def _fake_gradients(op: FusedOp, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
    """Gradients in the layouts the kernels write; those not asked for are empty."""
    logits, weights, parts, slack = (arguments[1 + at] for at in op.positions)
    *_, need_logits, need_weights, need_parts, need_slack = arguments
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


# ---- Gradients


def backward(
    op: FusedOp, ctx: Any, grad: Tensor, backward_op: Callable[..., Any] | None = None
) -> tuple[Tensor | None, ...]:
    """Gradients of all inputs, computed by one call of the backward operator."""
    asked = ctx.needs_input_grad
    logits, weights, parts, slack = op.positions
    gradients = (backward_op or op.backward_op)(
        grad, *ctx.saved_tensors, *ctx.options,
        asked[logits], asked[weights], asked[parts], asked[slack],
    )  # fmt: skip
    result: list[Tensor | None] = [None] * len(asked)
    for at, gradient in zip(op.positions, gradients, strict=True):
        if asked[at]:
            result[at] = gradient
    return tuple(result)


def _register_gradients(op: FusedOp) -> None:
    count = len(op.tensors)

    def setup(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
        ctx.save_for_backward(*inputs[:count], *output[1:])
        ctx.options = inputs[count:]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    def setup_second(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
        set_second_context(op, ctx, inputs)

    def second(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return second_backward(op, ctx, grads)

    name = f"ptd_ext::{op.name}"
    torch.library.register_autograd(
        name, lambda ctx, grad, *_: backward(op, ctx, grad), setup_context=setup
    )
    torch.library.register_autograd(f"{name}_backward", second, setup_context=setup_second)
    torch.library.register_fake(f"{name}_backward", lambda *inputs: _fake_gradients(op, inputs))
    _register_vmap(name)
    _register_vmap(f"{name}_backward")


def set_second_context(op: FusedOp, ctx: Any, inputs: Sequence[Any]) -> None:
    """Keep what `second_backward` reads of the inputs of the backward operator."""
    count = 1 + len(op.tensors)
    saved = len(op.forward_op._schema.returns) - 1
    ctx.save_for_backward(*inputs[:count])
    ctx.options = inputs[count + saved : -4]
    ctx.needs = inputs[-4:]
    ctx.set_materialize_grads(False)


def second_backward(
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
    torch.library.register_fake(name, lambda matrix: matrix.new_empty(matrix.shape))
    torch.library.register_fake(
        f"{name}_backward", lambda grad, matrix: matrix.new_empty(matrix.shape)
    )
    torch.library.register_autograd(name, first, setup_context=setup)
    torch.library.register_autograd(f"{name}_backward", second, setup_context=setup)
    _register_vmap(name)
    _register_vmap(f"{name}_backward")


# ---- vmap


def one_by_one(
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
        return one_by_one(op, info.batch_size, in_dims, args)

    torch.library.register_vmap(name, vmap)
