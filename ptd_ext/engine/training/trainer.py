"""The trainer: the stages of a method, one after the other, up to the test accuracy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ptd_ext.train import networks
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.data.problem import Problem
from ptd_ext.train.engine import checkpoint
from ptd_ext.train.engine.evaluate import Prediction, predict
from ptd_ext.train.engine.feasibility import check_one_sample, feasible_stages, smallest_batch
from ptd_ext.train.engine.logger import Log
from ptd_ext.train.engine.model_selection import better_model, validate
from ptd_ext.train.engine.placement import build_network, keeps_data
from ptd_ext.train.engine.signals import Stopped, StopSignals
from ptd_ext.train.engine.state import BestModel, Scores, StageOutputs, to_state
from ptd_ext.train.engine.train_step import AMP, TrainStep, key, order
from ptd_ext.train.engine.warm_up_cache import WarmUpCache
from ptd_ext.train.methods.base import Stage
from ptd_ext.train.methods.transition import WarmUp
from ptd_ext.transition.metrics import approximation_error
from ptd_ext.utils.distributed import Ranks
from ptd_ext.utils.threads import threads_for

__all__ = ["Trainer"]

_RANKS_AGREE = 20  # steps after which ranks exchange whether to stop


class Trainer:
    """Trains by the settings' method.

    Attributes:
        problem: the data, on the device.
        networks: the networks of the current stage.
        outputs: results that finished stages have left to later ones.
        last: the scores after the last epoch.
        fingerprint: a hash of the data.
    """

    def __init__(
        self,
        settings: Settings,
        problem: Problem,
        device: torch.device,
        *,
        out: Path | None = None,
        ranks: Ranks | None = None,
        log: Log | None = None,
    ) -> None:
        self.settings, self.device, self.out = settings, device, out
        self.fingerprint = problem.fingerprint()
        self._belongs_to = f"{checkpoint.digest(settings)}-{self.fingerprint}"
        self._cache = WarmUpCache(settings, self.fingerprint)
        self.problem = problem.to(device, keeps_data(settings, problem, device))
        self.ranks = ranks or Ranks()
        self.log = log or Log(quiet=True)
        self.stages = feasible_stages(settings, problem)
        self._check_network()
        self._cache.open()
        self.networks: list[nn.Module] = []
        self.outputs = StageOutputs()
        self._best: BestModel | None = None
        self.last: Scores | None = None
        self.seconds = 0.0

    def train(self, *, resume: bool = False) -> dict[str, Any]:
        """Train all stages, with `resume` from the last checkpoint; returns the result."""
        state = self._read_checkpoint() if resume else None
        first = 0 if state is None else state["stage"]
        self.log.back_to([] if state is None else state["records"])
        with StopSignals() as stopping:
            for index in range(first, len(self.stages)):
                mine = state if index == first else None
                cached = isinstance(self.stages[index], WarmUp) and mine is None
                if not cached or not self._from_cache():
                    self._stage(index, mine, stopping)
        return self._result()

    def worthwhile_threads(self) -> int:
        """How many threads a train step is worth, from network and batch size, not from timing."""
        if self.device.type != "cpu":
            return torch.get_num_threads()  # CPU threads prepare the GPU's batches
        samples = max(stage.batch_size * stage.networks for stage in self.stages)
        # Backward costs twice as much as forward; a step waits at least four times.
        return threads_for(3 * self._sample_work * samples / 4)

    def predict(self, network: nn.Module, split: str, *, features: bool = False) -> Prediction:
        """Predict the split "train", "validation" or "test"."""
        inputs = getattr(self.problem, split)
        amp = AMP[self.settings.amp]
        return predict(network, inputs, self.device, self.ranks, features=features, amp=amp)

    @property
    def best(self) -> BestModel:
        """The best model of the stage that is trained, by noisy validation data."""
        if self._best is None:
            raise RuntimeError("No epoch has been validated yet.")
        return self._best

    def best_network(self) -> nn.Module:
        """The network of the best model."""
        return self._network(len(self.stages), 0, self.best.network)

    def write_tensors(self, name: str, state: dict[str, Tensor]) -> None:
        """Write tensors to a file in the folder of the experiment, whole or not at all."""
        if self.out is not None and self.ranks.first:
            checkpoint.save_tensors(self.out / name, state)

    def _stage(self, index: int, state: dict[str, Any] | None, stopping: StopSignals) -> None:
        stage = self.stages[index]
        if state is not None:
            self._restore(state)
        elif self._best is not None:
            # `begin` estimates with the best model of the stage before.
            self.networks = [self._network(index, 0, self.best.network)]
        stage.to(self.device)
        stage.begin(self)
        stage.to(self.device)
        # A checkpoint brings its own networks.
        saved = self.best.network if state is None and stage.start == "best" else None
        self.networks = [self._network(index, n, saved) for n in range(stage.networks)]
        steps = TrainStep(
            stage, self.networks, self.problem, self.settings, self.device, self.ranks
        )
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
        for epoch in range(epoch, stage.epochs):  # noqa: B020 (goes on from where it was)
            self._epoch(index, epoch, step, steps, stopping)
            step = 0
        stage.finish(self)
        if isinstance(stage, WarmUp):
            self._keep_warm_up_accuracy()
            if self.ranks.first:
                self._cache.write(self.outputs, self.best)

    def _epoch(
        self, index: int, epoch: int, step: int, steps: TrainStep, stopping: StopSignals
    ) -> None:
        start = time.perf_counter()
        stage, size = self.stages[index], self.problem.train_size
        loss = steps.loss.clone()
        steps.begin_epoch(epoch)
        if step:
            steps.loss.copy_(loss)
        ids = order(self.settings.seed, index, epoch, size)
        batches = steps.batches(ids, step)
        total = -(-size // stage.batch_size)
        for samples, inputs in self.log.bar(batches, total - step, f"{stage.name} {epoch + 1}"):
            steps.step(samples, inputs, epoch, epoch * total + step)
            step += 1
            # A stop after the last step waits for the end of the epoch.
            if step < total and (number := self._signal(stopping, step)):
                self.seconds += time.perf_counter() - start
                steps.check_finite(epoch)
                self._save(index, epoch, step, steps)
                self.ranks.wait()
                raise Stopped(number)
            if self.settings.checkpoint_steps and step % self.settings.checkpoint_steps == 0:
                steps.check_finite(epoch)
                self._save(index, epoch, step, steps)
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
        if number := self._signal(stopping, 0):
            self.ranks.wait()
            raise Stopped(number)

    def _validate(self, stage: Stage, epoch: int) -> Scores:
        self.last, network = validate(self, stage, epoch)
        self._best = better_model(self._best, self.last, network, stage)
        return self.last

    def _signal(self, stopping: StopSignals, step: int) -> int:
        """Return the signal to stop for, or 0; ranks agree on it every few steps."""
        if self.ranks.size > 1 and step % _RANKS_AGREE:
            return 0
        return self.ranks.largest(stopping.received, self.device)

    def _network(self, index: int, number: int, state: dict[str, Tensor] | None) -> nn.Module:
        """A network whose initial weights are a function of seed, stage and number."""
        seed = key("network", self.settings.seed, index, number)
        network = build_network(self.settings, self.problem, self.device, self.ranks, seed)
        if state is not None:
            network.load_state_dict(state)
        return network

    def _check_network(self) -> None:
        """Check the network's outputs before anything is trained or written."""
        few = self.problem.train.fetch(torch.arange(2, device=self.device), self.device)
        try:
            network = self._network(0, 0, None)
            with FlopCounterMode(display=False) as counter:
                networks.check(network, few, self.problem.classes)
        except TypeError as error:
            raise ValueError(str(error)) from None
        if self.ranks.size == 1 and smallest_batch(self.stages, self.problem.train_size) == 1:
            check_one_sample(network, few[:1], self.problem.train_size)
        self._sample_work = counter.get_total_flops() / 2 / len(few)  # multiply-adds

    @property
    def _checkpoint_path(self) -> Path | None:
        return None if self.out is None else self.out / "checkpoint.pt"

    def _save(self, index: int, epoch: int, step: int, steps: TrainStep) -> None:
        if self._checkpoint_path is None or not self.ranks.first:
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
            "seconds": self.seconds,
            "records": self.log.records,
        }
        checkpoint.save(self._checkpoint_path, self._belongs_to, state)

    def _read_checkpoint(self) -> dict[str, Any] | None:
        path = self._checkpoint_path
        if path is None or not path.exists():
            return None
        state = checkpoint.load(path, self._belongs_to)
        epoch = state["epoch"] + 1
        self.log.say(f"going on in stage {self.stages[state['stage']].name!r} at epoch {epoch}")
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        self.seconds = state["seconds"]
        self.outputs = StageOutputs.from_state(state["outputs"], self.device)
        best, last = state["best"], state["last"]
        self._best = None if best is None else BestModel.from_state(best, self.device)
        self.last = None if last is None else Scores(**last)

    def _from_cache(self) -> bool:
        found = self._cache.read(self.device)
        if found is None:
            return False
        self.outputs, self._best = found
        self._keep_warm_up_accuracy()
        self.log.say(f"warmed-up network from {self._cache.path}")
        return True

    def held_out_accuracy(self) -> float:
        """The share of validation labels that the network predicts, after a warm-up if any."""
        found = self.outputs.warm_up_accuracy
        return self.best.scores.validation_accuracy / 100 if found is None else found.item()

    def _keep_warm_up_accuracy(self) -> None:
        share = self.best.scores.validation_accuracy / 100
        self.outputs.warm_up_accuracy = torch.tensor(share, device=self.device)

    def _result(self) -> dict[str, Any]:
        problem, t, best = self.problem, self.outputs.transition, self.best.scores
        last = best if self.last is None else self.last
        error = None
        if problem.train_rows is not None and t is not None:
            error = approximation_error(
                problem.train_rows, problem.train_clean, t.weights, t.parts, t.slack
            )
        return {
            "rate": problem.asked_rate,
            "train_samples": problem.train_size,
            "test_accuracy": best.test_accuracy,
            "test_accuracy_last": last.test_accuracy,
            "validation_accuracy": best.validation_accuracy,
            "chosen_epoch": best.epoch,
            "test_labels": "clean" if problem.clean_test else "given",
            "validation_labels": "noisy" if problem.noisy else "given",
            "realised_rate": problem.realised_rate,
            "approximation_error": error,
            "seconds": self.seconds,
        }
