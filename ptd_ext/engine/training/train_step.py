"""The train step: fetch, forward, loss, backward, update. Nothing in it waits for the device."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.optim import Schedule, skip_unless
from ptd_ext.engine.stage.stage import Batch, Stage
from ptd_ext.utils.distributed import Ranks

AMP = {"none": None, "float16": torch.float16, "bfloat16": torch.bfloat16}
_NEVER = 2**62  # a step that no run reaches


def key(*words: object) -> int:
    """Derive the seed of one purpose, independent of those of all others."""
    text = "/".join(map(str, words)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "little")


def order(seed: int, stage: int, epoch: int, size: int) -> Tensor:
    """Shuffle the sample ids of an epoch; the order depends on the arguments only."""
    generator = torch.Generator().manual_seed(key("order", seed, stage, epoch))
    return torch.randperm(size, generator=generator)


def diverged(stage: Stage, event: str) -> ValueError:
    """The error to raise for a network that has diverged, with what to try."""
    return ValueError(
        f"{event} of stage {stage.name!r}: the network has diverged. Try a smaller learning rate "
        f"(this stage has {stage.schedule.lr:g}), look for very large values in the data, and with "
        "amp = float16 try bfloat16 or none. Use another --out: a checkpoint in this one is from "
        "before the network diverged."
    )


class TrainStep:
    """Trains the networks of one stage, and the stage's own parameters."""

    def __init__(
        self,
        stage: Stage,
        networks: list[nn.Module],
        data: TrainingData,
        settings: Settings,
        device: torch.device,
        ranks: Ranks,
    ) -> None:
        self.stage, self.networks, self.data = stage, networks, data
        self.device, self.ranks = device, ranks
        self.amp = AMP[settings.amp]
        scaled = self.amp is torch.float16 and device.type == "cuda"
        self.scaler = torch.amp.GradScaler(device.type, enabled=scaled)
        self.forwards: list[Callable[[Tensor], tuple[Tensor, Tensor]]] = list(networks)
        if settings.compile != "none":
            self.forwards = [torch.compile(net, mode=settings.compile) for net in networks]
        self.schedules: list[Schedule] = [stage.schedule for _ in networks]
        self.optimisers: list[Optimizer] = [stage.schedule.build(n.parameters()) for n in networks]
        for parameters, schedule in stage.parameter_groups():
            self.schedules.append(schedule)
            self.optimisers.append(schedule.build(parameters))
        self.loss = torch.zeros((), device=device, dtype=torch.float64)
        self.diverged = torch.full((), _NEVER, device=device)  # the epoch's first diverged step

    def batches(self, ids: Tensor, skip: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield sample ids and this rank's inputs of each step, after the first `skip` steps."""
        inputs, size = self.data.train, self.stage.batch_size
        # Ids are split on both devices, so that no step copies them from one to the other.
        here = ids.to(self.device).split(size)[skip:]
        there = ids.to(inputs.device).split(size)[skip:]

        def fetch(mine: Tensor) -> Tensor:
            return inputs.fetch(self.ranks.share(mine), self.device)

        if not inputs.slow:
            yield from ((a, fetch(b)) for a, b in zip(here, there, strict=True))
            return
        with ThreadPoolExecutor(1) as ahead:
            waiting = [ahead.submit(fetch, mine) for mine in there[:1]]
            for number, batch in enumerate(here):
                ready = waiting.pop().result()
                if number + 1 < len(here):
                    waiting.append(ahead.submit(fetch, there[number + 1]))
                yield batch, ready

    def begin_epoch(self, epoch: int, step: int = 0) -> None:
        """Set training mode and learning rates, and reset the sum of losses before step 0."""
        for network in self.networks:
            network.train()
        for optimiser, schedule in zip(self.optimisers, self.schedules, strict=True):
            schedule.apply(optimiser, epoch, self.stage.epochs)
        if step == 0:
            self.loss.zero_()
        self.diverged.fill_(_NEVER)

    def step(self, ids: Tensor, inputs: Tensor, epoch: int, number: int) -> None:
        """Run one step: forward, loss, backward and update of all networks."""
        logits = []
        for forward in self.forwards:
            with torch.autocast(self.device.type, self.amp, enabled=self.amp is not None):
                z = forward(inputs)[1]
            logits.append(self.ranks.gather(z, len(ids)))
        labels = self.data.train_labels[ids]
        losses = self.stage.losses(Batch(ids, labels, epoch, number), logits)
        total = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        self.scaler.scale(total).backward()
        for network in self.networks:
            self.ranks.sum_gradients(network.parameters())
        # All ranks compute those of the loss.
        self.ranks.sum_gradients(self.stage.parameters(), 1 / self.ranks.size)
        updates = self.stage.updates()
        for index, optimiser in enumerate(self.optimisers):
            update = updates[index] if updates is not None and index < len(updates) else None
            with contextlib.nullcontext() if update is None else skip_unless(optimiser, update):
                self.scaler.step(optimiser)
        self.scaler.update()
        self.loss += total.detach() * (len(ids) / len(self.networks))
        # The first bad step is recorded on the device and read at the end of the epoch.
        here = torch.where(total.detach().isfinite(), _NEVER, number)
        torch.minimum(self.diverged, here, out=self.diverged)

    def check_finite(self, epoch: int) -> None:
        """Raise if a loss of this epoch was NaN or infinite."""
        number = int(self.diverged.item())
        if number != _NEVER:
            total = -(-self.data.train_size // self.stage.batch_size)
            where = f"at step {number - epoch * total + 1} of {total} in epoch {epoch + 1}"
            raise diverged(self.stage, f"The loss is not finite {where}")

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "scaler": self.scaler.state_dict(),
            "loss": self.loss,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the state of a checkpoint."""
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        if state["scaler"]:  # empty where the run began without one, on another device
            self.scaler.load_state_dict(state["scaler"])
        self.loss.copy_(state["loss"])
