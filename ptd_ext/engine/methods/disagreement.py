"""Training where two networks disagree: Decoupling and Co-teaching+."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.train.methods.base import Batch
from ptd_ext.train.methods.small_loss import (
    CoTeaching,
    Selecting,
    floor_of,
    kept_share,
    smallest,
)

__all__ = ["CoTeachingPlus", "Decoupling"]


def disagreement(logits: list[Tensor]) -> Tensor:
    """The mask [B] of samples for which two networks predict different classes."""
    first, second = logits
    return first.argmax(-1) != second.argmax(-1)


class Decoupling(Selecting):
    """Two networks, updated by cross entropy on the samples on which they disagree.

    Wrong labels that both networks have learned, or neither has, are then left out.
    """

    networks = 2

    def choose(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> list[Tensor]:
        """The disagreement, for both."""
        disagree = disagreement(logits)
        return [disagree, disagree]

    def figures(self) -> dict[str, float]:
        """The share of samples with disagreement."""
        return {"disagreeing": super().figures()["kept"]}


class CoTeachingPlus(CoTeaching):
    """Co-teaching on the samples of disagreement, which keeps the networks different."""

    tallies = (*CoTeaching.tallies, "disagreeing")
    disagreeing: Tensor

    def choose(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> list[Tensor]:
        """The peer's ⌊(1 − R(e))·n⌋ smallest losses of the n samples in dispute.

        All n are taken if that number is 0. If n is 0, the whole batch is taken in the first steps,
        when networks may agree because they have learned nothing, and no sample later.
        """
        disagree = disagreement(logits)
        size = disagree.sum()
        self.disagreeing += size
        if batch.epoch < self.settings.disagreement_start:
            return super().choose(batch, logits, losses)
        count = floor_of(kept_share(self.settings, batch.epoch), size)
        count = torch.where(count == 0, size, count)
        # The second mask is for losses that are infinite themselves: they tie with those outside.
        inside = [
            smallest(loss.masked_fill(~disagree, torch.inf), count) & disagree
            for loss in reversed(losses)
        ]
        if batch.step >= self.settings.disagreement_free_steps:
            return inside
        return [mask | (size == 0) for mask in inside]
