"""Methods of the comparison of estimators only: the true T(x), and early-learning targets."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.engine.methods.registry import METHODS, Method
from ptd_ext.engine.methods.transition import CrossEntropy
from ptd_ext.engine.stage.stage import Batch, StageContext

ORACLE = "true T(x)"
MEMORY, PULL = 0.7, 3.0  # β and λ, as published for CIFAR-10


class Oracle(CrossEntropy):
    """The forward loss through the true T(x)."""

    columns: Tensor  # [N, C], set before the run

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """−log Σᵢ gᵢ T_iȳ(x)."""
        column = Oracle.columns[batch.ids].clamp(min=1e-8).log()
        return [(z.logsumexp(1) - (z + column).logsumexp(1)).mean() for z in logits]


class EarlyLearning(CrossEntropy):
    """Early-learning regularisation (ELR): predictions are pulled towards their running mean t."""

    targets: Tensor  # t, [N, C]

    def begin(self, context: StageContext) -> None:
        """Start the running means at zero."""
        super().begin(context)
        shape = context.data.train_size, context.data.n_classes
        self.register_buffer("targets", torch.zeros(shape))

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """−log g_ȳ + λ·log(1 − ⟨g, t⟩)."""
        (cross_entropy,) = super().losses(batch, logits)
        g = logits[0].softmax(1).clamp(1e-4, 1 - 1e-4)
        mean = torch.lerp((g / g.sum(1, keepdim=True)).detach(), self.targets[batch.ids], MEMORY)
        self.targets[batch.ids] = mean
        return [cross_entropy + PULL * (1 - (g * mean).sum(1)).log().mean()]


METHODS[ORACLE] = Method(lambda s: [Oracle(s)])
METHODS["ELR"] = Method(lambda s: [EarlyLearning(s)])
