"""A stage of training: one loss, one schedule. A method is a list of stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from ptd_ext.train.config.settings import Settings
from ptd_ext.train.data.problem import Problem
from ptd_ext.train.engine.evaluate import Prediction
from ptd_ext.train.engine.logger import Log
from ptd_ext.train.engine.optim import Schedule
from ptd_ext.train.engine.state import BestModel, StageOutputs
from ptd_ext.utils.distributed import Ranks

__all__ = ["Batch", "Stage", "StageContext"]


class StageContext(Protocol):
    """The part of the trainer that a stage may use.

    Attributes:
        settings: the settings of the experiment.
        problem: the data, on the device.
        device: the device of the networks and the stage.
        ranks: the processes that train together.
        log: for a line that the user should read.
        networks: the networks of the current stage; in `begin`, the best one of the stage before.
        outputs: results that finished stages have left.
    """

    settings: Settings
    problem: Problem
    device: torch.device
    ranks: Ranks
    log: Log
    networks: list[nn.Module]
    outputs: StageOutputs

    @property
    def best(self) -> BestModel:
        """The best model so far of the current stage; in `begin`, that of the stage before."""
        ...

    def predict(self, network: nn.Module, split: str, *, features: bool = False) -> Prediction:
        """Logits, and features on request, of "train", "validation" or "test"."""
        ...

    def write_tensors(self, name: str, state: dict[str, Tensor]) -> None:
        """Write tensors to a file in the folder of the experiment."""
        ...


@dataclass(frozen=True)
class Batch:
    """The batch of a train step, as a loss sees it.

    Attributes:
        ids: positions of the samples in the training set, int64 [B]; they index everything that a
            stage stores per sample.
        labels: noisy labels, int64 [B].
        epoch: number of the epoch in its stage, from 0.
        step: number of the step in its stage, from 0.
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
        name: its name in the log.
        networks: the number of networks that train side by side.
        epochs: the number of epochs.
        batch_size: the number of samples in a step.
        schedule: optimiser and learning rate of the networks.
        start: the networks at the start: "fresh", or the "best" one of the stage before.
        keep_start: whether the model it starts from may be selected, too.
    """

    name: str
    networks: int = 1
    epochs: int
    batch_size: int
    schedule: Schedule
    start: Literal["fresh", "best"] = "fresh"
    keep_start: bool = False

    def begin(self, context: StageContext) -> None:
        """Prepare from the outputs of earlier stages; called once, and again after a resume."""

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
        """Return, after `losses`, a bool tensor [] per network: false skips its update."""
        return None

    def noisy_posterior(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        """P(noisy label | x), which validation compares with noisy labels; softmax by default."""
        return logits.softmax(-1)

    def end_epoch(self, context: StageContext, epoch: int) -> None:
        """Called after an epoch, before its checkpoint."""

    def finish(self, context: StageContext) -> None:
        """Called after the last epoch: leave in `context.outputs` what later stages need."""

    @torch.no_grad()
    def figures(self) -> dict[str, float]:
        """Figures for the line of an epoch, besides loss and accuracies."""
        return {}
