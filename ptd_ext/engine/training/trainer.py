"""The trainer: the stages of a method, one after the other, up to the test accuracy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ptd_ext.engine import networks
from ptd_ext.engine.methods.registry import stages_of
from ptd_ext.engine.methods.transition import WarmUp
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.evaluate import Prediction, predict
from ptd_ext.engine.stage.logger import Log
from ptd_ext.engine.stage.observer import Observer
from ptd_ext.engine.stage.stage import Stage
from ptd_ext.engine.stage.state import BestModel, Scores, StageOutputs, to_state
from ptd_ext.engine.training import checkpoint
from ptd_ext.engine.training.feasibility import check_last_batch
from ptd_ext.engine.training.model_selection import better_model, validate
from ptd_ext.engine.training.placement import build_network, keeps_data
from ptd_ext.engine.training.signals import Stopped, StopSignals
from ptd_ext.engine.training.train_step import AMP, TrainStep, key, order
from ptd_ext.engine.training.warm_up_cache import WarmUpCache
from ptd_ext.utils.distributed import Ranks
from ptd_ext.utils.threads import threads_for

_RANKS_AGREE = 20  # steps after which ranks exchange whether to stop


class Trainer:
    """Trains by the settings' method; stages see it as their :class:`StageContext`."""

    def __init__(
        self,
        settings: Settings,
        data: TrainingData,
        device: torch.device,
        *,
        out: Path | None = None,
        ranks: Ranks | None = None,
        log: Log | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.settings, self.device = settings, device
        fingerprint = data.fingerprint()
        self._checkpoint = None if out is None else out / "checkpoint.pt"
        self._belongs_to = f"{checkpoint.digest(settings)}-{fingerprint}"
        self._cache = WarmUpCache(settings, fingerprint)
        resident = keeps_data(settings, data, device)
        self.data = data.to(device, resident)
        self.observer = observer or Observer()
        self.observer.to(device, resident)
        self.ranks = ranks or Ranks()
        self.log = log or Log(quiet=True)
        self.stages = stages_of(settings, data)
        self._check_network()
        self._cache.open()
        self.networks: list[nn.Module] = []
        self.outputs = StageOutputs()
        self._best: BestModel | None = None
        self.last: Scores | None = None  # after the last epoch
        self.seconds = 0.0

    def train(self, *, resume: bool = False) -> None:
        """Train all stages, with `resume` from the last checkpoint."""
        state = self._read_checkpoint() if resume else None
        first = 0 if state is None else state["stage"]
        self.log.back_to([] if state is None else state["records"])
        with StopSignals() as stopping:
            for index in range(first, len(self.stages)):
                mine = state if index == first else None
                cached = isinstance(self.stages[index], WarmUp) and mine is None
                if not cached or not self._from_cache():
                    self._stage(index, mine, stopping)

    def worthwhile_threads(self) -> int:
        """How many threads a train step is worth, from network and batch size, not from timing."""
        if self.device.type != "cpu":
            return torch.get_num_threads()  # CPU threads prepare the GPU's batches
        samples = max(stage.batch_size * stage.networks for stage in self.stages)
        # Backward costs twice as much as forward; a step waits at least four times.
        return threads_for(3 * self._sample_work * samples / 4)

    def predict(
        self, network: nn.Module, rows: str | Inputs, *, features: bool = False
    ) -> Prediction:
        """Predict the rows "train" or "validation", or others."""
        inputs = getattr(self.data, rows) if isinstance(rows, str) else rows
        amp = AMP[self.settings.amp]
        return predict(network, inputs, self.device, self.ranks, features=features, amp=amp)

    @property
    def best(self) -> BestModel:
        """The best model of the stage that is trained, by noisy validation data."""
        assert self._best is not None  # an epoch has been validated
        return self._best

    def network_of(self, state: dict[str, Tensor]) -> nn.Module:
        """A network in evaluation mode with the weights of a state dict."""
        network = build_network(self.settings, self.data, self.device, Ranks(), 0)
        network.load_state_dict(state)
        return network.eval()

    def _stage(self, index: int, state: dict[str, Any] | None, stopping: StopSignals) -> None:
        stage = self.stages[index]
        if state is not None:
            self._restore(state)
        elif self._best is not None:
            # `begin` estimates with the best model of the stage before.
            self.networks = [self._network(index, 0, self.best.network)]
        stage.begin(self)
        stage.to(self.device)
        # A checkpoint has its own networks.
        saved = self.best.network if state is None and stage.start == "best" else None
        self.networks = [self._network(index, n, saved) for n in range(stage.networks)]
        steps = TrainStep(stage, self.networks, self.data, self.settings, self.device, self.ranks)
        epoch, step = 0, 0
        if state is None:
            self._best = None
            torch.manual_seed(key("layers", self.settings.seed, index, self.ranks.rank))
            if stage.keep_start:
                self._validate(stage, -1)
        else:
            for network, saved in zip(self.networks, state["networks"], strict=True):
                network.load_state_dict(saved)
            stage.load_state_dict(state["stage_state"])
            steps.load_state_dict(state["steps"])
            epoch, step = state["epoch"], state["step"]
            checkpoint.set_rng_state(state["rng"])
            if not self.ranks.first:  # the state is the first rank's
                torch.manual_seed(
                    key("layers", self.settings.seed, index, self.ranks.rank, epoch, step)
                )
        for epoch in range(epoch, stage.epochs):  # noqa: B020 (continues with the saved epoch)
            self._epoch(index, epoch, step, steps, stopping)
            step = 0
        stage.finish(self)
        if isinstance(stage, WarmUp) and self.ranks.first:
            records = [each for each in self.log.records if each["stage"] == stage.name]
            self._cache.write(self.outputs, self.best, records)

    def _epoch(
        self, index: int, epoch: int, step: int, steps: TrainStep, stopping: StopSignals
    ) -> None:
        start = time.perf_counter()
        stage, size = self.stages[index], self.data.train_size
        every = self.settings.checkpoint_steps
        steps.begin_epoch(epoch, step)
        ids = order(self.settings.seed, index, epoch, size)
        batches = steps.batches(ids, step)
        total = -(-size // stage.batch_size)
        for samples, inputs in self.log.steps(batches, total, stage.name):
            steps.step(samples, inputs, epoch, epoch * total + step)
            step += 1
            # A stop after the last step waits for the end of the epoch.
            number = self._signal(stopping, step) if step < total else 0
            if number or (every and step % every == 0):
                steps.check_finite(epoch)
                self._save(index, epoch, step, steps, time.perf_counter() - start)
            self._stop(number)
        # Diverged networks must be neither evaluated nor saved.
        steps.check_finite(epoch)
        for network in self.networks:
            self.ranks.from_first(network.buffers())
        record = {
            "stage": stage.name,
            "epoch": epoch + 1,
            "epochs": stage.epochs,
            "loss": steps.loss.item() / size,
            **self._validate(stage, epoch).figures(),
            **stage.figures(),
        }
        stage.end_epoch(self, epoch)
        seconds = time.perf_counter() - start
        self.seconds += seconds
        self.log.epoch({**record, "seconds": seconds})
        self._save(index, epoch + 1, 0, steps)
        self._stop(self._signal(stopping, 0))

    def _validate(self, stage: Stage, epoch: int) -> Scores:
        self.last, network = validate(self, stage, epoch)
        self._best = better_model(self._best, self.last, network, stage)
        return self.last

    def _signal(self, stopping: StopSignals, step: int) -> int:
        """Return the signal to stop for, or 0; ranks agree on it every few steps."""
        if self.ranks.size > 1 and step % _RANKS_AGREE:
            return 0
        return self.ranks.largest(stopping.received, self.device)

    def _stop(self, number: int) -> None:
        """Stop training if there is a signal, once the first rank has saved."""
        if number:
            self.ranks.wait()
            raise Stopped(number)

    def _network(self, index: int, number: int, state: dict[str, Tensor] | None) -> nn.Module:
        """A network whose initial weights are a function of seed, stage and number."""
        seed = key("network", self.settings.seed, index, number)
        network = build_network(self.settings, self.data, self.device, self.ranks, seed)
        if state is not None:
            network.load_state_dict(state)
        return network

    def _check_network(self) -> None:
        """Check the network's outputs before anything is trained or written."""
        few = self.data.train.fetch(torch.arange(2, device=self.device), self.device)
        try:
            network = self._network(0, 0, None)
            with FlopCounterMode(display=False) as counter:
                networks.check(network, few, self.data.n_classes)
        except TypeError as error:
            raise ValueError(str(error)) from None
        if self.ranks.size == 1:
            sizes = [stage.batch_size for stage in self.stages]
            check_last_batch(network, few[:1], self.data.train_size, sizes)
        self._sample_work = counter.get_total_flops() / 2 / len(few)  # multiply-adds

    def _save(
        self, index: int, epoch: int, step: int, steps: TrainStep, seconds: float = 0.0
    ) -> None:
        if self._checkpoint is None or not self.ranks.first:
            return
        state = {
            "stage": index,
            "epoch": epoch,
            "step": step,
            "networks": [network.state_dict() for network in self.networks],
            "stage_state": self.stages[index].state_dict(),
            "steps": steps.state_dict(),
            "outputs": to_state(self.outputs),
            "best": to_state(self._best),
            "last": to_state(self.last),
            "rng": checkpoint.rng_state(),
            "seconds": self.seconds + seconds,
            "records": self.log.records,
        }
        checkpoint.save(self._checkpoint, self._belongs_to, state)

    def _read_checkpoint(self) -> dict[str, Any] | None:
        if self._checkpoint is None or not self._checkpoint.exists():
            return None
        state = checkpoint.load(self._checkpoint, self._belongs_to, self.device)
        epoch = state["epoch"] + 1
        self.log.info(f"continuing in stage {self.stages[state['stage']].name!r} at epoch {epoch}")
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        self.seconds = state["seconds"]
        self.outputs = StageOutputs.from_state(state["outputs"])
        best, last = state["best"], state["last"]
        self._best = None if best is None else BestModel.from_state(best)
        self.last = None if last is None else Scores(**last)

    def _from_cache(self) -> bool:
        found = self._cache.read(self.device)
        if found is None:
            return False
        self.outputs, self._best = found.outputs, found.best
        self.log.take(found.records)
        self.log.info(f"warmed-up network read from {self._cache.path}")
        return True

    def held_out_accuracy(self) -> float:
        """The share of validation labels that the network predicts, after a warm-up if any."""
        found = self.outputs.warm_up_accuracy
        return self.best.scores.validation_accuracy / 100 if found is None else found.item()
