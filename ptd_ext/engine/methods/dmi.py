"""DMI: determinant-based mutual information between predictions and noisy labels.

Let Q[i, k] be the joint distribution of label i and predicted class k, estimated on a batch as
YᵀG/B. Class-dependent noise multiplies Q by Tᵀ, and therefore |det Q| by |det T|, a constant. So
maximising log |det Q| on noisy labels also maximises it on the clean ones.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor

from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.optim import Schedule
from ptd_ext.engine.stage.stage import Batch, Stage, StageContext

# Added to |det|, so that a batch in which a class is missing has a finite loss.
FLOOR = 1e-3


def determinant(logits: Tensor, labels: Tensor, *, per_sample: bool = True) -> Tensor:
    """|det(YᵀG/B)|, or |det(YᵀG)| without `per_sample`; float64.

    In float32, cancellation leaves only rounding errors of such a determinant.
    """
    samples, classes = logits.shape
    g = logits.double().softmax(-1)
    # F.one_hot would check the labels, which synchronises with the device.
    y = (labels[:, None] == torch.arange(classes, device=labels.device)).double()
    counts = y.T @ g
    return torch.linalg.det(counts / samples if per_sample else counts).abs()


class DeterminantInformation(Stage):
    """Training by −log(|det(YᵀG/B)| + FLOOR), from the best network of cross entropy.

    With `dmi_per_sample`, the determinant of C balanced classes is at most C⁻ᶜ, and where that is
    far below FLOOR the loss is nearly constant. Without the division by B it is Bᶜ times as large,
    and FLOOR matters only where a class is missing.
    """

    total: Tensor  # sum of the determinants of an epoch, float64 []
    batches: Tensor  # number of batches in that sum, int64 []

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.epochs = settings.dmi_epochs
        self.batch_size = settings.dmi_batch_size
        self.schedule = Schedule.of(settings, optimiser="sgd", lr=settings.dmi_lr, shape="constant")
        self.start = "best"
        self.full: Tensor | None = None
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))

    def check(self, data: TrainingData) -> None:
        """Check that a batch has at least as many samples as there are classes."""
        if self.batch_size < data.n_classes:
            raise ValueError(
                f"dmi_batch_size must be at least the number of classes, {data.n_classes}: the "
                f"determinant of fewer samples is always 0; got {self.batch_size}."
            )

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """The loss; 0 for a batch with fewer samples than classes, whose determinant is 0."""
        (z,) = logits
        samples, classes = z.shape
        self.full = torch.full((), samples >= classes, device=z.device)
        if samples < classes:
            return [z[:0].sum()]
        size = determinant(z, batch.labels, per_sample=self.settings.dmi_per_sample)
        self.total += size.detach()
        self.batches += 1
        return [-(size + FLOOR).log().to(torch.promote_types(z.dtype, torch.float32))]

    def updates(self) -> list[Tensor] | None:
        """False for a batch with fewer samples than classes."""
        return None if self.full is None else [self.full]

    def end_epoch(self, context: StageContext, epoch: int) -> None:
        """Reset the sums."""
        self.total.zero_()
        self.batches.zero_()

    def figures(self) -> dict[str, float]:
        """The logarithm of the mean determinant, which unlike the loss has no floor."""
        mean = self.total.item() / max(self.batches.item(), 1)
        return {"log_det": math.log(max(mean, sys.float_info.min))}
