"""The losses as modules that keep their transition matrices."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from ptd_ext.ops import functional
from ptd_ext.ops.checks import (
    check_importance,
    check_reduction,
    check_smoothing,
    check_tensors,
    check_transition,
)
from ptd_ext.ops.functional import Reduction
from ptd_ext.ops.layout import prepare_parts

__all__ = ["ForwardLoss", "ReweightLoss"]


class _TransitionLoss(nn.Module):
    """Owns `parts`, and `slack` when revision is on."""

    parts: Tensor
    slack: nn.Parameter | None
    class_weight: Tensor | None

    def __init__(
        self,
        parts: Tensor,
        *,
        revision: bool = False,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        class_weight: Tensor | None = None,
        smoothing: float = 1e-8,
        validate: bool = False,
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        check_smoothing(smoothing)
        check_tensors(parts=parts, class_weight=class_weight)
        check_transition(
            None if parts.dim() == 2 else parts.new_empty(0, *parts.shape[:1]), parts, None
        )
        # Own copies: training must not write into the caller's tensors, nor they into ours.
        self.register_buffer("parts", prepare_parts(parts.detach()).clone())
        if class_weight is not None:
            class_weight = class_weight.detach().clone()
        self.register_buffer("class_weight", class_weight)
        # The slack has the layout that the kernels read and write, like the parts.
        slack = torch.zeros_like(self.parts[0] if parts.dim() == 3 else self.parts)
        self.register_parameter("slack", nn.Parameter(slack) if revision else None)
        self.reduction: Reduction = reduction
        self.ignore_index = ignore_index
        self.smoothing = smoothing
        self.validate = validate

    def _options(self) -> dict[str, Any]:
        names = ("reduction", "ignore_index", "class_weight", "smoothing", "validate")
        return {name: getattr(self, name) for name in names}

    def transition(self, weights: Tensor | None = None) -> Tensor:
        """T(x), revised where revision is on; see :func:`ptd_ext.ops.transition_matrix`."""
        return functional.transition_matrix(weights, self.parts, self.slack)

    def extra_repr(self) -> str:
        """The sizes and what differs from the defaults."""
        n_parts, n_classes = (1, *self.parts.shape)[-3:-1]
        text = f"n_classes={n_classes}, n_parts={n_parts}, revision={self.slack is not None}"
        return f"{text}, reduction={self.reduction!r}, smoothing={self.smoothing}"


class ForwardLoss(_TransitionLoss):
    """:func:`ptd_ext.forward_loss` as a module.

    Args:
        parts: P, [R, C, C], or [C, C] for one class-dependent matrix. Kept as a buffer.
        revision: learn ΔT: a parameter `slack` [C, C] that starts at zero.
        reduction: as in :func:`ptd_ext.forward_loss`, like all that follow.
        ignore_index: the label of samples that do not count.
        class_weight: [C], kept as a buffer.
        smoothing: ε in T ← (1−ε)T + ε/C.
        validate: check values at every call.

    Examples:
        >>> parts = torch.tensor([[[0.8, 0.2], [0.3, 0.7]]])
        >>> criterion = ptd_ext.ForwardLoss(parts, revision=True)
        >>> loss = criterion(torch.zeros(3, 2), torch.tensor([0, 1, 1]), torch.ones(3, 1))
        >>> loss.backward()
        >>> criterion.slack.grad.shape
        torch.Size([2, 2])
    """

    def forward(
        self, logits: Tensor, noisy_labels: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """The loss of logits [N, C] for labels [N] and weights h(x) [N, R]."""
        return functional.forward_loss(
            logits, noisy_labels, weights, self.parts, self.slack, **self._options()
        )


class ReweightLoss(_TransitionLoss):
    """:func:`ptd_ext.reweight_loss` as a module.

    Args:
        parts: as in :class:`ForwardLoss`.
        importance: "detached" or "attached"; revision needs "attached".
        max_importance: an upper bound on β.
        revision: as in :class:`ForwardLoss`.
        **options: as in :class:`ForwardLoss`.

    Examples:
        >>> criterion = ptd_ext.ReweightLoss(torch.tensor([[[0.8, 0.2], [0.3, 0.7]]]))
        >>> criterion(torch.zeros(3, 2), torch.tensor([0, 1, 1]), torch.ones(3, 1))
        tensor(0.7235)
    """

    def __init__(
        self,
        parts: Tensor,
        *,
        importance: Literal["detached", "attached"] = "detached",
        max_importance: float | None = None,
        revision: bool = False,
        **options: Any,
    ) -> None:
        check_importance(importance, max_importance)
        if revision and importance == "detached":
            raise ValueError(
                'revision needs importance="attached": a detached importance gives slack no '
                "gradient."
            )
        super().__init__(parts, revision=revision, **options)
        self.importance: Literal["detached", "attached"] = importance
        self.max_importance = max_importance

    def forward(
        self, logits: Tensor, noisy_labels: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """The loss of logits [N, C] for labels [N] and weights h(x) [N, R]."""
        return functional.reweight_loss(
            logits,
            noisy_labels,
            weights,
            self.parts,
            self.slack,
            importance=self.importance,
            max_importance=self.max_importance,
            **self._options(),
        )

    def extra_repr(self) -> str:
        """The sizes and what differs from the defaults."""
        text = f"importance={self.importance!r}, max_importance={self.max_importance}"
        return f"{super().extra_repr()}, {text}"
