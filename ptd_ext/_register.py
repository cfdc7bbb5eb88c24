"""What torch has to know of the operators besides their kernels: shapes, gradients, vmap.

Each differentiable operator takes some tensors, then options, and returns its result followed by
what its backward operator wants back:

    name(*tensors, *options) -> (result, *saved)
    name_backward(grad, *tensors, *saved, *options, need_logits, need_weights, need_parts,
                  need_slack) -> gradients of logits, weights, parts, slack

Second derivatives are taken of the plain torch definition in :mod:`ptd_ext.reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ptd_ext import reference

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
        # Where the differentiable tensors stand among the arguments.
        self.positions = tuple(tensors.index(tensor) for tensor in DIFFERENTIABLE)


def _define_loss(
    logits: Tensor,
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    support: Tensor | None,
    slack: Tensor | None,
    class_weight: Tensor | None,
    importance: int,
    max_importance: float,
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
    ("logits", "noisy_labels", "weights", "parts", "support", "slack", "class_weight"),
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
    torch.library.register_fake("ptd_ext::part_support", _fake_part_support)
    for op in (TRANSITION_LOSS, CLEAN_POSTERIOR, NOISY_POSTERIOR):
        _register_gradients(op)
    _register_project_transition()


# ---- Shapes


def _fake_transition_loss(
    logits, noisy_labels, weights, parts, support, slack, class_weight, *options
):
    reduction = options[2]
    loss = parts.new_empty([logits.shape[0]] if reduction == REDUCTIONS["none"] else [])
    return loss, parts.new_empty([]), _fake_saved_column(logits, parts, slack)


def _fake_clean_posterior(logits, noisy_labels, weights, parts, slack, *options):
    return parts.new_empty(logits.shape), _fake_saved_column(logits, parts, slack)


def _fake_saved_column(logits: Tensor, parts: Tensor, slack: Tensor | None) -> Tensor:
    # A GPU forms the column again in less time than it takes to read it back.
    kept = slack is not None or logits.device.type != "cuda"
    return parts.new_empty(logits.shape if kept else [0])


def _fake_noisy_posterior(logits, weights, parts, slack):
    saved = parts.new_empty([0] if slack is None else logits.shape)
    return parts.new_empty(logits.shape), saved


def _fake_part_support(parts):
    size = torch.library.get_ctx().new_dynamic_size()
    return parts.new_empty([size], dtype=torch.uint8)


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


def backward(op: FusedOp, ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of all inputs, computed by one call of the backward operator."""
    asked = ctx.needs_input_grad
    logits, weights, parts, slack = op.positions
    gradients = op.backward_op(
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
        ctx.save_for_backward(*inputs[: 1 + count])
        saved = len(op.forward_op._schema.returns) - 1
        ctx.options = inputs[1 + count + saved : -4]
        ctx.needs = inputs[-4:]
        ctx.set_materialize_grads(False)

    def second(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return _second_backward(op, ctx, grads)

    name = f"ptd_ext::{op.name}"
    torch.library.register_autograd(
        name, lambda ctx, grad, *_: backward(op, ctx, grad), setup_context=setup
    )
    torch.library.register_autograd(f"{name}_backward", second, setup_context=setup_second)
    torch.library.register_fake(f"{name}_backward", lambda *inputs: _fake_gradients(op, inputs))
    _register_vmap(name)
    _register_vmap(f"{name}_backward")


def _second_backward(
    op: FusedOp, ctx: Any, grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradient of the backward operator, by differentiating the definition twice."""
    with torch.enable_grad():
        grad, *tensors = (
            t.detach().requires_grad_(t.is_floating_point()) if t is not None else None
            for t in ctx.saved_tensors
        )
        result = op.define(*tensors, *ctx.options)
        at = [p for p, need in zip(op.positions, ctx.needs, strict=True) if need]
        first = torch.autograd.grad(
            result, [tensors[p] for p in at], grad, create_graph=True, allow_unused=True
        )
        outer = [g for g, need in zip(grads, ctx.needs, strict=True) if need]
        pairs = [
            (f, g) for f, g in zip(first, outer, strict=True) if f is not None and g is not None
        ]
        pairs = [(f, g) for f, g in pairs if f.requires_grad]
        wanted = [(0, grad), *((1 + p, tensors[p]) for p in op.positions)]
        wanted = [(p, t) for p, t in wanted if t is not None and ctx.needs_input_grad[p]]
        answer: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        if pairs and wanted:
            second = torch.autograd.grad(
                [f for f, _ in pairs],
                [t for _, t in wanted],
                [g for _, g in pairs],
                allow_unused=True,
            )
            for (p, _), value in zip(wanted, second, strict=True):
                answer[p] = value
    return tuple(answer)


def _register_project_transition() -> None:
    def setup(ctx: Any, inputs: Sequence[Any], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    def first(ctx: Any, grad: Tensor) -> Tensor:
        return torch.ops.ptd_ext.project_transition_backward(grad, *ctx.saved_tensors)

    def second(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            grad, matrix = (t.detach().requires_grad_() for t in ctx.saved_tensors)
            result = reference.project_transition(matrix)
            (inner,) = torch.autograd.grad(result, matrix, grad, create_graph=True)
            return torch.autograd.grad(inner, (grad, matrix), outer)

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


def _register_vmap(name: str) -> None:
    """One call per element: right for every combination of batched arguments, and no faster."""
    op = getattr(torch.ops.ptd_ext, name.removeprefix("ptd_ext::")).default

    def vmap(info: Any, in_dims: Sequence[int | None], *args: Any) -> tuple[Any, Any]:
        results = []
        for index in range(info.batch_size):
            element = (
                arg if dim is None else arg.select(dim, index)
                for arg, dim in zip(args, in_dims, strict=True)
            )
            results.append(op(*element))
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        return tuple(torch.stack(column) for column in zip(*results, strict=True)), (
            (0,) * len(results[0])
        )

    torch.library.register_vmap(name, vmap)
