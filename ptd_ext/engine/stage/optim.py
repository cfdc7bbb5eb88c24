"""Optimisers and their schedules, which are functions of the epoch and have no state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer

from ptd_ext.engine.settings.settings import Settings


@dataclass(frozen=True)
class Schedule:
    """An optimiser, its learning rate by epoch, and β₁ once linear decay has begun."""

    optimiser: Literal["sgd", "adam"]
    lr: float
    momentum: float = 0.9
    weight_decay: float = 0.0
    shape: Literal["steps", "linear", "constant"] = "constant"
    milestones: tuple[int, ...] = ()
    decay: float = 0.1
    decay_from: float = 1.0
    late_beta1: float = 0.9

    @classmethod
    def of(cls, settings: Settings, **changes: Any) -> Schedule:
        """The schedule of the main stage, with changes."""
        names = {field.name for field in fields(cls)} - {"shape"}
        values = {name: getattr(settings, name) for name in names}
        return cls(**{**values, "shape": settings.schedule, **changes})

    def build(self, parameters: Iterable[Tensor]) -> Optimizer:
        """Make the fused optimiser of the trainable parameters: one kernel for all, on CPUs too."""
        parameters = [parameter for parameter in parameters if parameter.requires_grad]
        if self.optimiser == "adam":
            return Adam(parameters, lr=self.lr, weight_decay=self.weight_decay, fused=True)
        optimiser = SGD(
            parameters,
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            fused=True,
        )
        if self.momentum:
            # A first step that is skipped would leave torch's own buffers uninitialised. From zero
            # the first step is the same: momentum · 0 + gradient.
            for group in optimiser.param_groups:
                for parameter in group["params"]:
                    optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return optimiser

    def factor(self, epoch: int, epochs: int) -> float:
        """The learning rate of an epoch, in units of `lr`."""
        if self.shape == "steps":
            return self.decay ** sum(epoch >= milestone for milestone in self.milestones)
        if self.shape == "linear":
            begin = self.decay_from * epochs
            return 1.0 if epoch < begin else max(0.0, (epochs - epoch) / (epochs - begin))
        return 1.0

    def apply(self, optimiser: Optimizer, epoch: int, epochs: int) -> None:
        """Set the optimiser up for an epoch."""
        late = self.shape == "linear" and epoch >= self.decay_from * epochs
        for group in optimiser.param_groups:
            group["lr"] = self.lr * self.factor(epoch, epochs)
            if "betas" in group:
                group["betas"] = (self.late_beta1 if late else 0.9, group["betas"][1])


@contextmanager
def skip_unless(optimiser: Optimizer, update: Tensor) -> Iterator[None]:
    """Make an optimiser's step do nothing where a tensor on the device is false.

    Fused optimisers read `found_inf`, which gradient scalers set; so momentum and weight decay are
    skipped too, and the host need not wait.
    """

    def before(optimiser: Optimizer, args: Any, kwargs: Any) -> None:
        found = getattr(optimiser, "found_inf", None)
        skip = (~update).float()
        skip = skip if found is None else torch.maximum(found, skip)
        setattr(optimiser, "found_inf", skip)  # noqa: B010 (not declared by Optimizer)

    hook = optimiser.register_step_pre_hook(before)
    try:
        yield
    finally:
        hook.remove()
        if hasattr(optimiser, "found_inf"):
            del optimiser.found_inf
