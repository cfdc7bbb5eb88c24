"""One run: the stages of a method, one after the other, from data to a clean test accuracy."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ptd_ext.approximation import approximation_error
from ptd_ext.train import checkpoint, networks
from ptd_ext.train.log import Log
from ptd_ext.train.methods import stages
from ptd_ext.train.methods.transition_losses import WarmUp
from ptd_ext.train.predict import Prediction, accuracy, predict
from ptd_ext.train.problem import Problem
from ptd_ext.train.ranks import Ranks
from ptd_ext.train.settings import Settings
from ptd_ext.train.stages import Stage
from ptd_ext.train.steps import AMP, Steps, key, order
from ptd_ext.train.stopping import Stopped, Stopping

__all__ = ["Run"]

_RANKS_AGREE = 20  # steps between two times that ranks ask each other whether to stop


class Run:
    """Trains by the settings' method.

    Attributes:
        problem: the data, on the device.
        networks: those of the stage at hand.
        kept: what stages leave to later ones: posteriors, weights h(x), parts, ΔT.
        chosen: of the stage at hand, the model that did best on noisy validation data.
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
        self.problem = problem.to(device, _resident(settings, problem, device))
        self.ranks = ranks or Ranks()
        self.log = log or Log(None, quiet=True)
        self.stages = stages(settings)
        self.networks: list[nn.Module] = []
        self.kept: dict[str, Tensor] = {}
        self.chosen: dict[str, Any] = {}
        self.last: dict[str, Any] = {}
        self.seconds = 0.0

    def go(self, *, resume: bool = False) -> dict[str, Any]:
        """All stages; the result. With `resume`, on from the last checkpoint if there is one."""
        state = self._read_checkpoint() if resume else None
        first = 0 if state is None else state["stage"]
        with Stopping() as stopping:
            for index in range(first, len(self.stages)):
                mine = state if index == first else None
                if mine is None and self._from_cache(index):
                    continue
                self._stage(index, mine, stopping)
        return self._result()

    def predict(self, network: nn.Module, split: str, *, features: bool = False) -> Prediction:
        """What a network says of the split "train", "validation" or "test"."""
        inputs = getattr(self.problem, split)
        amp = AMP[self.settings.amp]
        return predict(network, inputs, self.device, self.ranks, features=features, amp=amp)

    def network_chosen(self) -> nn.Module:
        """The network that noisy validation data chose."""
        return self._network(len(self.stages), 0, self.chosen["network"])

    # One stage.

    def _stage(self, index: int, state: dict[str, Any] | None, stopping: Stopping) -> None:
        stage = self.stages[index]
        if state is not None:
            self._restore(state)
        elif self.chosen:
            # What `begin` estimates, it estimates with the model chosen before.
            self.networks = [self._network(index, 0, self.chosen["network"])]
        stage.to(self.device)
        stage.begin(self)
        stage.to(self.device)
        # A checkpoint brings its own networks.
        saved = self.chosen["network"] if state is None and stage.start == "chosen" else None
        self.networks = [self._network(index, n, saved) for n in range(stage.networks)]
        few = self.problem.train.fetch(torch.arange(2, device=self.device), self.device)
        networks.check(self.networks[0], few, self.problem.classes)
        steps = Steps(stage, self.networks, self.problem, self.settings, self.device, self.ranks)
        epoch, step = 0, 0
        if state is None:
            self.chosen = {"value": -torch.inf}
            if stage.keep_start:
                self._validate(stage, -1)
        else:
            for network, saved in zip(self.networks, state["networks"], strict=True):
                network.load_state_dict(saved)
            stage.load_state_dict(state["stage_state"])
            steps.load_state_dict(state["steps"])
            self.chosen, self.last = state["chosen"], state["last"]
            epoch, step = state["epoch"], state["step"]
            checkpoint.set_rng_state(state["rng"])
        for epoch in range(epoch, stage.epochs):  # noqa: B020 (goes on from where it was)
            self._epoch(index, epoch, step, steps, stopping)
            step = 0
        stage.finish(self)
        self._to_cache(index)

    def _epoch(self, index: int, epoch: int, step: int, steps: Steps, stopping: Stopping) -> None:
        start = time.perf_counter()
        stage, size = self.stages[index], self.problem.train_size
        loss = steps.loss.clone()
        steps.begin_epoch(epoch)
        if step:
            steps.loss.copy_(loss)
        ids = order(self.settings.seed, index, epoch, size)
        batches = steps.batches(ids, step)
        total = -(-size // stage.batch_size)
        for batch in self.log.bar(batches, total - step, f"{stage.name} {epoch + 1}"):
            steps.step(batch, epoch, epoch * total + step)
            step += 1
            if self._stop(stopping, step, step == total):
                self.seconds += time.perf_counter() - start
                self._save(index, epoch, step, steps)
                raise Stopped(stopping.received)
            if self.settings.checkpoint_steps and step % self.settings.checkpoint_steps == 0:
                self._save(index, epoch, step, steps)
        for network in self.networks:
            self.ranks.from_first(network.buffers())
        record = {
            "stage": stage.name,
            "epoch": epoch + 1,
            "epochs": stage.epochs,
            "loss": steps.loss.item() / size,
            **self._validate(stage, epoch),
            **stage.figures(),
        }
        stage.end_epoch(self, epoch)
        seconds = time.perf_counter() - start
        self.seconds += seconds
        self.log.epoch({**record, "seconds": seconds})
        self._save(index, epoch + 1, 0, steps)

    def _stop(self, stopping: Stopping, step: int, last: bool) -> bool:
        """Whether to stop here, which all ranks must agree on; not after an epoch's last step."""
        if last:
            return False
        if self.ranks.size == 1:
            return stopping.received != 0
        if step % _RANKS_AGREE:
            return False
        return self.ranks.any(stopping.received != 0, self.device)

    @torch.no_grad()
    def _validate(self, stage: Stage, epoch: int) -> dict[str, float]:
        """Accuracies now; remembers the model if it is the best so far on noisy validation."""
        weights = self.kept.get("validation_weights")
        best: dict[str, Any] = {}
        for network in self.networks:
            logits = self.predict(network, "validation").logits
            posterior = stage.noisy_posterior(logits, weights)
            labels = self.problem.validation_labels
            found = {
                "validation_accuracy": accuracy(posterior, labels),
                "test_accuracy": accuracy(
                    self.predict(network, "test").logits, self.problem.test_labels
                ),
            }
            picked = posterior.gather(1, labels[:, None]).double()
            likelihood = picked.clamp(min=1e-30).log().mean().item()
            values = {"accuracy": found["validation_accuracy"], "likelihood": likelihood}
            found["validation_likelihood"] = likelihood
            value = values.get(self.settings.select, float(epoch))
            if not best or value > best["value"]:
                best, network_of_best = {**found, "value": value, "epoch": epoch + 1}, network
        self.last = best
        if best["value"] > self.chosen["value"]:
            # The stage's parameters only: what it stores per sample need not go back in time.
            learned = dict(stage.named_parameters())
            self.chosen = {
                **best,
                "network": copy.deepcopy(network_of_best.state_dict()),
                "learned": {name: p.detach().clone() for name, p in learned.items()},
            }
        return {name: value for name, value in best.items() if name not in ("value", "epoch")}

    # Networks.

    def _network(self, index: int, number: int, state: dict[str, Tensor] | None) -> nn.Module:
        """Initialised as a function of seed, stage and number, then loaded with `state`."""
        with torch.random.fork_rng():
            torch.manual_seed(key("network", self.settings.seed, index, number))
            network = networks.build(
                self.settings.network,
                self.problem.classes,
                inputs=self.problem.sample_shape,
                embedding=self.problem.embedding,
                weights=self.settings.network_weights or None,
            )
        layout = torch.channels_last if self.settings.channels_last else torch.contiguous_format
        network = network.to(self.device, memory_format=layout)
        if self.ranks.size > 1 and self.device.type == "cuda":
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
        if state is not None:
            network.load_state_dict(state)
        return network

    # Checkpoints and the cache of warmed-up networks.

    @property
    def _checkpoint_path(self) -> Path | None:
        return None if self.out is None else self.out / "checkpoint.pt"

    def _save(self, index: int, epoch: int, step: int, steps: Steps) -> None:
        if self._checkpoint_path is None or not self.ranks.first:
            return
        state = {
            "stage": index,
            "epoch": epoch,
            "step": step,
            "networks": [network.state_dict() for network in self.networks],
            "stage_state": self.stages[index].state_dict(),
            "steps": steps.state_dict(),
            "kept": self.kept,
            "chosen": self.chosen,
            "last": self.last,
            "rng": checkpoint.rng_state(),
            "seconds": self.seconds,
            "log": self.log.size(),
        }
        checkpoint.save(self._checkpoint_path, self.settings, state)

    def _read_checkpoint(self) -> dict[str, Any] | None:
        path = self._checkpoint_path
        if path is None or not path.exists():
            return None
        state = checkpoint.load(path, self.settings)
        self.log.back_to(state["log"])
        epoch = state["epoch"] + 1
        self.log.say(f"going on in stage {self.stages[state['stage']].name!r} at epoch {epoch}")
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        self.kept = {name: tensor.to(self.device) for name, tensor in state["kept"].items()}
        self.chosen, self.seconds = state["chosen"], state["seconds"]

    def _cache_path(self, index: int) -> Path | None:
        if not self.settings.warm_up_cache or not isinstance(self.stages[index], WarmUp):
            return None
        skipped = {"method", "preset", "epochs"}
        word = checkpoint.digest(self.settings, skipped, ("data", "method", "optimiser"))
        counts = f"{self.settings.warm_up_epochs}-{self.settings.posterior_epochs}"
        return Path(self.settings.warm_up_cache) / f"{word}-{counts}.pt"

    def _from_cache(self, index: int) -> bool:
        path = self._cache_path(index)
        if path is None or not path.exists():
            return False
        found = torch.load(path, map_location=self.device, weights_only=True)
        self.kept, self.chosen = found["kept"], found["chosen"]
        self.log.say(f"warmed-up network from {path}")
        return True

    def _to_cache(self, index: int) -> None:
        path = self._cache_path(index)
        if path is not None and self.ranks.first:
            path.parent.mkdir(parents=True, exist_ok=True)
            checkpoint.save(path, self.settings, {"kept": self.kept, "chosen": self.chosen})

    def _result(self) -> dict[str, Any]:
        problem, kept = self.problem, self.kept
        error = None
        if problem.train_rows is not None and "parts" in kept:
            slack = self.chosen["learned"].get("slack")
            error = approximation_error(
                problem.train_rows, problem.train_clean, kept["weights"], kept["parts"], slack
            )
        return {
            "train_samples": problem.train_size,
            "test_accuracy": self.chosen["test_accuracy"],
            "test_accuracy_last": self.last["test_accuracy"],
            "validation_accuracy": self.chosen["validation_accuracy"],
            "chosen_epoch": self.chosen["epoch"],
            "realised_rate": problem.realised_rate,
            "approximation_error": error,
            "seconds": self.seconds,
        }


def _resident(settings: Settings, problem: Problem, device: torch.device) -> bool:
    """Whether the samples live on the device: if told so, or if they take half of what is free."""
    if settings.resident != "auto" or device.type != "cuda":
        return settings.resident != "no"
    free, _ = torch.cuda.mem_get_info(device)
    return problem.bytes() <= free / 2
