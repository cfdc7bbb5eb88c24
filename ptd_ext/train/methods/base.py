"""A stage of training: one loss, one schedule. A method is a list of stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from ptd_ext.train.engine.optim import Schedule
    from ptd_ext.train.engine.trainer import Run

__all__ = ["Batch", "Stage"]


@dataclass(frozen=True)
class Batch:
    """What a loss may know of a step.

    Attributes:
        ids: positions of the samples in the training set, int64 [B]; what is stored per sample is
            looked up by them.
        labels: noisy, int64 [B].
        epoch: of the stage, from 0.
        step: of the stage, from 0.
    """

    ids: Tensor
    labels: Tensor
    epoch: int
    step: int


class Stage(nn.Module):
    """One loss with its schedule.

    A stage is a module so that what it learns (ΔT) and what it remembers of samples (soft labels)
    are parameters and buffers: they move to the device and into checkpoints with it.

    Attributes:
        name: for the log.
        networks: how many networks train side by side.
        epochs: how many.
        batch_size: samples of a step.
        schedule: optimiser and learning rate of the networks.
        start: the networks at the start: "fresh", or those "chosen" in the stage before.
        keep_start: whether the model it starts from may be chosen.
    """

    name: str
    networks: int = 1
    epochs: int
    batch_size: int
    schedule: Schedule
    start: Literal["fresh", "chosen"] = "fresh"
    keep_start: bool = False

    def begin(self, run: Run) -> None:
        """Prepare from what earlier stages left in `run.kept`; called once, and after a resume."""

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """One scalar per network; the sum is differentiated.

        Called with the whole batch, also where several processes share it. Nothing here may wait
        for the device: no `.item()`, no shape that depends on values.
        """
        raise NotImplementedError

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], Schedule]]:
        """The stage's own parameters, with the schedule of each group."""
        return []

    def updates(self) -> list[Tensor] | None:
        """After `losses`: for every network a bool tensor [], false to leave it as it is."""
        return None

    def noisy_posterior(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        """P(noisy label | x), which validation compares with noisy labels; softmax by default."""
        return logits.softmax(-1)

    def end_epoch(self, run: Run, epoch: int) -> None:
        """After an epoch, before its checkpoint."""

    def finish(self, run: Run) -> None:
        """After the last epoch: leave in `run.kept` what later stages need."""

    @torch.no_grad()
    def figures(self) -> dict[str, float]:
        """What the line of an epoch should tell besides loss and accuracies."""
        return {}
