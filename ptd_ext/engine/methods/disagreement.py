"""Training on samples on which two networks disagree: Decoupling and Co-teaching+."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.engine.methods.small_loss import (
    CoTeaching,
    SampleSelection,
    floor_of,
    kept_share,
    smallest,
)
from ptd_ext.engine.stage.stage import Batch


def disagreement(logits: list[Tensor]) -> Tensor:
    """The mask [B] of samples for which two networks predict different classes."""
    first, second = logits
    return first.argmax(-1) != second.argmax(-1)


class Decoupling(SampleSelection):
    """Two networks, updated by cross entropy on the samples on which they disagree.

    This leaves out wrong labels that both networks have learned, or neither.
    """

    networks = 2

    def choose(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> list[Tensor]:
        """The samples of disagreement, for both networks."""
        disagree = disagreement(logits)
        return [disagree, disagree]

    def figures(self) -> dict[str, float]:
        """The share of samples on which the networks disagree."""
        return {"disagreeing": super().figures()["kept"]}


class CoTeachingPlus(CoTeaching):
    """Co-teaching on samples on which the networks disagree, which keeps them different."""

    tallies = (*CoTeaching.tallies, "disagreeing")
    disagreeing: Tensor

    def choose(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> list[Tensor]:
        """The peer's ⌊(1 − R(e))·n⌋ smallest losses of the n samples of disagreement.

        If that number is 0, all n are selected. If n is 0, the whole batch is selected in the first
        steps, when networks may agree because they have learned nothing, and no sample later.
        """
        disagree = disagreement(logits)
        size = disagree.sum()
        self.disagreeing += size
        if batch.epoch < self.settings.disagreement_start:
            return super().choose(batch, logits, losses)
        count = floor_of(kept_share(self.settings, batch.epoch), size)
        count = torch.where(count == 0, size, count)
        # Infinite losses tie with the masked ones; the second mask excludes those.
        inside = [
            smallest(loss.masked_fill(~disagree, torch.inf), count) & disagree
            for loss in reversed(losses)
        ]
        if batch.step >= self.settings.disagreement_free_steps:
            return inside
        return [mask | (size == 0) for mask in inside]
