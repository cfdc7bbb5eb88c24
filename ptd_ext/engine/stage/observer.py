"""Observers: figures of training that only an experiment can know, such as clean test accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ptd_ext.engine.rows.inputs import Inputs


class Observer:
    """Observes training without an effect on it; this one has no figures.

    A subclass may hold clean labels. Nothing that it returns is used to train or to select.
    """

    def to(self, device: torch.device, resident: bool) -> None:
        """Move what it holds to the device, rows only if `resident`."""

    def figures(self, logits_of: Callable[[Inputs], Tensor]) -> dict[str, float]:
        """Figures of a network after an epoch, by name, such as its test accuracy.

        `logits_of` predicts the logits of rows, [n, C]; ranks share the work.
        """
        return {}

    def anchor_accuracy(self, ids: Sequence[Tensor]) -> float | None:
        """The share of anchors that belong to their class, if that is known.

        `ids` are the positions of each class's anchors among the training rows.
        """
        return None
