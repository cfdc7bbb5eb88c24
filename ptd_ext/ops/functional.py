"""The public functions. Argument shapes: N samples, C classes, R parts.

=================  ===========  ==================================================================
``logits`` z       [N, C]       float32, float64, float16 or bfloat16; g = softmax(z)
``noisy_labels`` ȳ [N]          int64 or int32
``weights`` h      [N, R]       every row on the simplex; None with ``parts`` [C, C]
``parts`` P        [R, C, C]    every row on the simplex
``slack`` ΔT       [C, C]       free
=================  ===========  ==================================================================

T(x) = Σⱼ hⱼ Pʲ, and with ``slack`` T(x) + ΔT, clamped at zero and divided by its row sums; a row
whose sum is zero or subnormal becomes uniform. Entry (i, k) is the probability that a sample of
class i carries the label k.

Half-precision logits are accumulated in float32, results are float32 or, for float64 logits,
float64, and gradients have the type of their tensor. ``weights``, ``parts`` and ``slack`` may be of
any floating-point type and are cast to the type of the result.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ptd_ext.ops._autograd import apply
from ptd_ext.ops._library import (
    ATTACHED,
    CLEAN_POSTERIOR,
    DETACHED,
    FORWARD,
    NOISY_POSTERIOR,
    REDUCTIONS,
    TRANSITION_LOSS,
)
from ptd_ext.ops._row_ops import PROJECT_TRANSITION
from ptd_ext.ops.checks import (
    check_floating,
    check_importance,
    check_reduction,
    check_smoothing,
    check_tensors,
    check_transition,
    validate_batch,
    validate_labels,
)
from ptd_ext.ops.devices import check_device
from ptd_ext.ops.layout import prepare_parts
from ptd_ext.ops.reference import accumulated

__all__ = [
    "clean_posterior",
    "forward_loss",
    "noisy_posterior",
    "project_transition",
    "reweight_loss",
    "transition_matrix",
]

Reduction = Literal["none", "mean", "sum"]


def forward_loss(
    logits: Tensor,
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    class_weight: Tensor | None = None,
    smoothing: float = 1e-8,
    validate: bool = False,
) -> Tensor:
    r"""The forward-corrected loss, −log (T(x)ᵀg)_ȳ.

    Computed as ``logsumexp(z) − logsumexp(z + log u)``, where u is column ȳ of T(x): the only part
    of T(x) that is formed, unless ``slack`` makes every row's sum matter.

    Args:
        logits: z, [N, C].
        noisy_labels: ȳ, [N].
        weights: h(x), [N, R]; None for one class-dependent matrix.
        parts: P, [R, C, C]; [C, C] without weights. See :func:`ptd_ext.ops.prepare_parts`.
        slack: ΔT, [C, C].
        reduction: "none", "mean" or "sum". As in ``F.cross_entropy`` the mean divides by the
            class weight of the samples that count.
        ignore_index: label of the samples to ignore.
        class_weight: [C], the weight of a sample by its noisy label; not differentiated.
        smoothing: ε in T ← (1−ε)T + ε/C, which keeps a label that T(x) rules out at a finite loss.
            With 0, the loss and its gradient of the logits hold for columns of any size, to the
            digits that subnormal entries have; gradients of ``weights``, ``parts`` and ``slack``
            are divided by the column, and where that is below 1e-38 in float32 they come out
            infinite or NaN, even if float64 would have a number there.
        validate: check the values too (labels on a GPU; weights and parts that are negative, not
            finite or do not sum to one), at the price of a synchronisation.

    Examples:
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], requires_grad=True)
        >>> noisy_labels = torch.tensor([0, 1, 1])
        >>> transition = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
        >>> ptd_ext.forward_loss(logits, noisy_labels, None, transition)  # one matrix
        tensor(0.6051, grad_fn=<transition_lossBackward>)
        >>> parts = torch.stack([transition, torch.eye(2)])
        >>> weights = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]])
        >>> loss = ptd_ext.forward_loss(logits, noisy_labels, weights, parts)  # T(x)
        >>> loss.backward()
    """
    return _transition_loss(
        logits, noisy_labels, weights, parts, slack, class_weight,
        (FORWARD, None), reduction, ignore_index, smoothing, validate,
    )  # fmt: skip


def reweight_loss(
    logits: Tensor,
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None = None,
    *,
    importance: Literal["detached", "attached"] = "detached",
    max_importance: float | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    class_weight: Tensor | None = None,
    smoothing: float = 1e-8,
    validate: bool = False,
) -> Tensor:
    r"""The importance-reweighted loss, β · (−log g_ȳ) with β = g_ȳ / (T(x)ᵀg)_ȳ.

    Args:
        logits: z, [N, C].
        noisy_labels: ȳ, [N].
        weights: h(x), [N, R]; None for one class-dependent matrix.
        parts: P, [R, C, C]; [C, C] without weights. See :func:`ptd_ext.ops.prepare_parts`.
        slack: ΔT, [C, C].
        importance: "detached" takes β as a constant. "attached" differentiates it, the only form
            that gives ``slack``, ``weights`` and ``parts`` a gradient; it has a spurious minimum
            at g_ȳ → 0, against which ``max_importance`` helps.
        max_importance: an upper bound on β.
        reduction: as in :func:`forward_loss`.
        ignore_index: as in :func:`forward_loss`.
        class_weight: as in :func:`forward_loss`.
        smoothing: as in :func:`forward_loss`. With 0 the loss is a number wherever β · (−log g_ȳ)
            is one, even if β is not; where T(x) cannot give the label at all it is infinite. With
            an attached β, gradients of ``weights``, ``parts`` and ``slack`` are divided by the
            column twice, and are infinite or NaN in float32 where that is below 1e-19.
        validate: as in :func:`forward_loss`.

    Examples:
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]], requires_grad=True)
        >>> transition = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
        >>> ptd_ext.reweight_loss(logits, torch.tensor([0, 1, 1]), None, transition)
        tensor(0.5006, grad_fn=<transition_lossBackward>)
    """
    check_importance(importance, max_importance)
    kind = DETACHED if importance == "detached" else ATTACHED
    return _transition_loss(
        logits, noisy_labels, weights, parts, slack, class_weight,
        (kind, max_importance), reduction, ignore_index, smoothing, validate,
    )  # fmt: skip


def noisy_posterior(
    logits: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None = None,
    *,
    validate: bool = False,
) -> Tensor:
    """P(Ȳ | x) = T(x)ᵀg, [N, C]: the prediction of the noisy label.

    Examples:
        >>> transition = torch.tensor([[[0.8, 0.2], [0.3, 0.7]]])
        >>> ptd_ext.ops.noisy_posterior(torch.tensor([[9.0, 0.0]]), torch.ones(1, 1), transition)
        tensor([[0.7999, 0.2001]])
    """
    weights, parts, slack = _transition(logits, weights, parts, slack, validate)
    return apply(NOISY_POSTERIOR, (logits, weights, parts, slack), ())


def clean_posterior(
    logits: Tensor,
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None = None,
    *,
    ignore_index: int = -100,
    smoothing: float = 1e-8,
    validate: bool = False,
) -> Tensor:
    """P(Y | x, ȳ) ∝ g ⊙ column ȳ of T(x), [N, C]: the true label, given the noisy one.

    A sample whose label is ``ignore_index`` keeps its softmax. ``smoothing`` as in
    :func:`forward_loss`, whose gradient is ``softmax(logits) − clean_posterior``.

    Examples:
        >>> logits = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
        >>> transition = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
        >>> ptd_ext.clean_posterior(logits, torch.tensor([0, 1]), None, transition)
        tensor([[0.9517, 0.0483],
                [0.6786, 0.3214]])
    """
    check_smoothing(smoothing)
    check_tensors(noisy_labels=noisy_labels)
    weights, parts, slack = _transition(logits, weights, parts, slack, validate)
    if validate:
        validate_labels(noisy_labels, logits, ignore_index)
    tensors = (logits, noisy_labels, weights, parts, slack)
    return apply(CLEAN_POSTERIOR, tensors, (ignore_index, smoothing))


def transition_matrix(
    weights: Tensor | None, parts: Tensor, slack: Tensor | None = None, *, validate: bool = False
) -> Tensor:
    """T(x) = Σⱼ hⱼ Pʲ, [N, C, C] ([C, C] without weights); revised where ``slack`` is given.

    For inspection, or for a loss of your own: the losses here never form it.

    Examples:
        >>> parts = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.4], [0.2, 0.8]]])
        >>> ptd_ext.ops.transition_matrix(torch.tensor([[0.5, 0.5]]), parts)
        tensor([[[0.8000, 0.2000],
                 [0.1000, 0.9000]]])
    """
    check_transition(weights, parts, slack)
    if validate:
        validate_batch(weights, parts, slack)
    dtype = torch.float32
    for tensor in (weights, parts, slack):
        dtype = dtype if tensor is None else torch.promote_types(dtype, tensor.dtype)
    parts = parts.to(dtype)
    if weights is None:
        matrix = parts.reshape(parts.shape[-2:])
    else:
        # One product of [N, R] and [R, C²]; autocast would cast its result to a half type.
        with torch.autocast(parts.device.type, enabled=False):
            matrix = torch.tensordot(weights.to(dtype), parts, dims=1)
    return matrix if slack is None else project_transition(matrix + slack.to(dtype))


def project_transition(matrix: Tensor) -> Tensor:
    """Clamp […, C, C] at zero and divide every row by its sum.

    A row with nothing positive becomes uniform, with zero gradient; NaN stays NaN.

    Examples:
        >>> ptd_ext.ops.project_transition(torch.tensor([[0.9, 0.3], [-0.1, 0.9]]))
        tensor([[0.7500, 0.2500],
                [0.0000, 1.0000]])
    """
    check_tensors(matrix=matrix)
    check_device(matrix)
    return PROJECT_TRANSITION(accumulated(matrix))


def _transition_loss(
    logits: Tensor,
    noisy_labels: Tensor,
    weights: Tensor | None,
    parts: Tensor,
    slack: Tensor | None,
    class_weight: Tensor | None,
    importance: tuple[int, float | None],
    reduction: str,
    ignore_index: int,
    smoothing: float,
    validate: bool,
) -> Tensor:
    check_reduction(reduction)
    check_smoothing(smoothing)
    check_tensors(noisy_labels=noisy_labels, class_weight=class_weight)
    weights, parts, slack = _transition(logits, weights, parts, slack, validate)
    if class_weight is not None:
        if class_weight.requires_grad:
            raise ValueError("class_weight must not require a gradient: it is not differentiated.")
        class_weight = _cast(class_weight, parts.dtype, "class_weight")
    if validate:
        validate_labels(noisy_labels, logits, ignore_index)
    tensors = (logits, noisy_labels, weights, parts, slack, class_weight)
    options = (*importance, REDUCTIONS[reduction], ignore_index, smoothing)
    return apply(TRANSITION_LOSS, tensors, options)


def _transition(
    logits: Tensor, weights: Tensor | None, parts: Tensor, slack: Tensor | None, validate: bool
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """Weights, parts and slack in the type the logits are accumulated in."""
    check_tensors(logits=logits, weights=weights, parts=parts, slack=slack)
    check_device(logits)
    if validate:
        validate_batch(weights, parts, slack)
    dtype = torch.float64 if logits.dtype is torch.float64 else torch.float32
    parts = _cast(parts, dtype, "parts")
    weights = None if weights is None else _cast(weights, dtype, "weights")
    slack = None if slack is None else _cast(slack, dtype, "slack")
    # On the CPU the kernels lay out what they read themselves, in less time than calls from here
    # take; with slack and many classes once for both passes is better.
    few = parts.dim() > 0 and parts.shape[-1] < 32
    in_kernels = parts.is_cpu and (slack is None or few)
    return weights, parts if in_kernels else prepare_parts(parts), slack


def _cast(tensor: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """Cast to the type the logits are accumulated in; estimates made with NumPy are float64."""
    if tensor.dtype is dtype:
        return tensor
    check_floating(**{name: tensor})
    return tensor.to(dtype)
