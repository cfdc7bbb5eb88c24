"""A stage of training: one loss, one schedule. A method is a list of stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.evaluate import Prediction
from ptd_ext.engine.stage.logger import Log
from ptd_ext.engine.stage.observer import Observer
from ptd_ext.engine.stage.optim import Schedule
from ptd_ext.engine.stage.state import BestModel, StageOutputs
from ptd_ext.utils.distributed import Ranks


class StageContext(Protocol):
    """The part of the trainer that a stage may use."""

    settings: Settings
    data: TrainingData  # on the device
    observer: Observer
    device: torch.device
    ranks: Ranks
    log: Log
    networks: list[nn.Module]  # those of the stage; in `begin`, the best of the stage before
    outputs: StageOutputs

    @property
    def best(self) -> BestModel:
        """The best model so far of the current stage; in `begin`, that of the stage before."""
        ...

    def predict(
        self, network: nn.Module, rows: str | Inputs, *, features: bool = False
    ) -> Prediction:
        """Logits, and features on request, of "train", "validation" or other rows."""
        ...


@dataclass(frozen=True)
class Batch:
    """The samples of a train step; epochs and steps of a stage are counted from 0."""

    ids: Tensor  # positions of the samples in the training set, int64 [B]
    labels: Tensor  # noisy labels, int64 [B]
    epoch: int
    step: int


class Stage(nn.Module):
    """One loss with its schedule.

    A stage is a module, so that what it learns (ΔT) and stores per sample (soft labels) are
    parameters and buffers, which move to the device and into checkpoints with it. By default it has
    the schedule of the main stage.
    """

    name: str  # in the log
    networks: int = 1  # the number of networks that train together
    epochs: int
    batch_size: int
    schedule: Schedule  # optimiser and learning rate of the networks
    start: Literal["fresh", "best"] = "fresh"  # "best": from the best model of the stage before
    keep_start: bool = False  # model selection includes the model that it starts from

    def __init__(self, settings: Settings, name: str = "train") -> None:
        super().__init__()
        self.settings, self.name = settings, name
        self.epochs, self.batch_size = settings.epochs, settings.batch_size
        self.schedule = Schedule.of(settings)

    def check(self, data: TrainingData) -> None:
        """Raise ValueError if the settings cannot train this stage on these data."""

    def begin(self, context: StageContext) -> None:
        """Prepare from the outputs of earlier stages; called once, and once after a resume."""

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """One scalar per network; the sum is differentiated.

        The batch is whole, even if several processes share it. Nothing here may synchronise with
        the device: no `.item()`, no shape that depends on values.
        """
        raise NotImplementedError

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], Schedule]]:
        """The parameters of the stage, with the schedule of each group."""
        return []

    def updates(self) -> list[Tensor] | None:
        """One bool tensor [] per network, called after `losses`; false skips its update."""
        return None

    def noisy_posterior(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        """P(given label | x), which validation compares with noisy labels; softmax by default."""
        return logits.softmax(-1)

    def end_epoch(self, context: StageContext, epoch: int) -> None:
        """Called after an epoch, before its checkpoint."""

    def finish(self, context: StageContext) -> None:
        """Store in `context.outputs` what later stages need; called after the last epoch."""

    @torch.no_grad()
    def figures(self) -> dict[str, float]:
        """Figures for the log of an epoch, besides loss and accuracies."""
        return {}
