"""Training on samples with small loss: MentorNet in its self-paced form, and Co-teaching.

Networks learn clean labels first, so that a large loss early in training indicates a wrong label.
Each batch leaves out the samples with the largest losses, a share that grows with the epochs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

import torch
from torch import Tensor

from ptd_ext.engine.methods.transition import CrossEntropy
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.stage import Batch, StageContext
from ptd_ext.ops.functional import forward_loss

Count = TypeVar("Count", int, Tensor)


def kept_share(settings: Settings, epoch: int) -> Fraction:
    """1 − R(e). R is 0 in the first epoch and τ in the last of the ramp, and linear between.

    It is an exact fraction: in floats, (1 − 0.8) · 10 is slightly below 2, and its floor is 1. τ is
    rounded to a fraction with a small denominator, such as 4/5.
    """
    left_out = Fraction(settings.left_out).limit_denominator(10**6)
    if epoch >= settings.ramp_epochs:
        return 1 - left_out
    return 1 - left_out * Fraction(epoch, max(settings.ramp_epochs - 1, 1))


def floor_of(share: Fraction, size: Count) -> Count:
    """⌊share · size⌋, exactly, for a number or an integer tensor."""
    return size * share.numerator // share.denominator


def smallest(losses: Tensor, count: int | Tensor) -> Tensor:
    """The mask [B] of the `count` smallest losses; the first of equal losses come first.

    It compares ranks, so that `count` may be a tensor and no shape depends on its value.
    """
    return losses.argsort(stable=True).argsort() < count


def mean_over(losses: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the chosen losses; 0 with a gradient of zeros if none is chosen."""
    return losses.where(chosen, 0.0).sum() / chosen.sum().clamp(min=1)


class SampleSelection(CrossEntropy):
    """Mean cross entropy over samples that each step selects for each network.

    A network without selected samples is not updated, not even by weight decay or momentum.
    """

    # Numbers of samples in an epoch; figures are ratios to the first one. They are buffers, so that
    # training that resumes within an epoch reports the whole epoch.
    tallies: tuple[str, ...] = ("seen", "kept")
    seen: Tensor
    kept: Tensor

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.some: list[Tensor] | None = None
        for name in self.tallies:
            self.register_buffer(name, torch.zeros((), dtype=torch.int64))

    def choose(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> list[Tensor]:
        """Return a mask [B] per network, from all networks' detached logits and losses."""
        raise NotImplementedError

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """The mean loss over the chosen samples, for each network."""
        losses = [
            forward_loss(z, batch.labels, None, self.identity, smoothing=0.0, reduction="none")
            for z in logits
        ]
        with torch.no_grad():
            chosen = self.choose(
                batch, [z.detach() for z in logits], [loss.detach() for loss in losses]
            )
            self.some = [mask.any() for mask in chosen]
            self.seen += batch.labels.shape[0]
            self.kept += chosen[0].sum()
        return [mean_over(loss, mask) for loss, mask in zip(losses, chosen, strict=True)]

    def updates(self) -> list[Tensor] | None:
        """True for a network that has samples to train on."""
        return self.some

    def end_epoch(self, context: StageContext, epoch: int) -> None:
        """Reset the counts."""
        for name in self.tallies:
            getattr(self, name).zero_()

    def figures(self) -> dict[str, float]:
        """The counts as shares of the samples seen."""
        seen, *counts = torch.stack([getattr(self, name) for name in self.tallies]).tolist()
        return {
            name: count / max(seen, 1) for name, count in zip(self.tallies[1:], counts, strict=True)
        }


class MentorNet(SampleSelection):
    """Training on the ⌊(1 − R(e))·B⌋ samples with the smallest losses of the network itself."""

    def check(self, data: TrainingData) -> None:
        """Check that the share to leave out is known and not a whole batch."""
        settings = self.settings
        if settings.left_out < 0:
            raise ValueError(
                f"forget_rate must be given: {settings.method} leaves out a share of each batch, "
                "and the noise rate of these labels is unknown."
            )
        batch = min(self.batch_size, data.train_size)
        if floor_of(kept_share(settings, settings.ramp_epochs), batch) == 0:
            raise ValueError(
                f"forget_rate must keep at least one sample of a batch of {batch}; it leaves out "
                f"{settings.left_out:g} of it. Set a smaller forget_rate or a larger batch_size."
            )

    def choose(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> list[Tensor]:
        """The smallest losses of each network, for itself."""
        share = kept_share(self.settings, batch.epoch)
        count = floor_of(share, batch.labels.shape[0])
        return [smallest(loss, count) for loss in losses]


class CoTeaching(MentorNet):
    """Two networks, each trained on the samples for which the other has a small loss.

    Their initial weights differ, so that they fit different wrong labels; a network that selected
    its own samples would reinforce its errors.
    """

    networks = 2

    def choose(self, batch: Batch, logits: list[Tensor], losses: list[Tensor]) -> list[Tensor]:
        """The selections of MentorNet, exchanged between the networks."""
        return super().choose(batch, logits, losses)[::-1]
