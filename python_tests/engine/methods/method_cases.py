"""Runs, batches and steps that stand in for the driver in the tests of methods."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from random_numbers import new_generator
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.optim import Schedule, skip_unless
from ptd_ext.engine.stage.stage import Batch, Stage
from ptd_ext.engine.stage.state import StageOutputs


def stub_run(labels: Tensor, classes: int) -> SimpleNamespace:
    """The part of a trainer that stages use."""
    about = {"n_classes": classes, "train_labels": labels, "verified": None}
    data = SimpleNamespace(train_size=len(labels), **about)
    return SimpleNamespace(data=data, outputs=StageOutputs(), device=labels.device)


def begun(stage: Stage, labels: Tensor, classes: int) -> Stage:
    """The stage at the start of a run on these training labels."""
    stage.begin(stub_run(labels, classes))
    return stage


def batch_of(labels: Tensor, epoch: int = 0, step: int = 0, ids: Tensor | None = None) -> Batch:
    """A batch; by default the training set in order."""
    ids = torch.arange(len(labels), device=labels.device) if ids is None else ids
    return Batch(ids=ids, labels=labels, epoch=epoch, step=step)


def random_batch(seed: int, samples: int, classes: int, networks: int = 1, scale: float = 2.0):
    """Labels [B] and, for every network, logits [B, C], float64 and to be differentiated."""
    g = new_generator(seed)
    labels = torch.randint(classes, (samples,), generator=g)
    logits = [
        (scale * torch.randn(samples, classes, generator=g, dtype=torch.float64)).requires_grad_()
        for _ in range(networks)
    ]
    return labels, logits


def gradients(losses: list[Tensor], logits: list[Tensor]) -> list[Tensor]:
    """As the driver differentiates: the sum of all losses."""
    return list(torch.autograd.grad(sum(losses), logits))


def rows_of(gradient: Tensor) -> set[int]:
    """The samples that a gradient reaches."""
    return set(gradient.abs().sum(-1).nonzero()[:, 0].tolist())


def mean_gradient(logits: Tensor, labels: Tensor, rows: set[int]) -> tuple[Tensor, Tensor]:
    """The mean cross entropy over some rows, by torch, and its gradient."""
    index = sorted(rows)
    loss = F.cross_entropy(logits[index], labels[index])
    return loss, torch.autograd.grad(loss, logits)[0]


class Trained:
    """Linear networks with optimisers, that take steps as a driver would."""

    def __init__(self, stage: Stage, schedule: Schedule, features: int, classes: int) -> None:
        torch.manual_seed(0)
        self.stage = stage
        self.networks = [nn.Linear(features, classes) for _ in range(stage.networks)]
        self.optimisers = [schedule.build(network.parameters()) for network in self.networks]

    def step(self, inputs: Tensor, batch: Batch) -> list[Tensor]:
        """One step; the losses."""
        losses = self.stage.losses(batch, [network(inputs) for network in self.networks])
        sum(losses).backward()
        updates = self.stage.updates() or [torch.tensor(True)] * len(self.networks)
        for optimiser, update in zip(self.optimisers, updates, strict=True):
            with skip_unless(optimiser, update):
                optimiser.step()
            optimiser.zero_grad()
        return losses

    def state(self) -> list[dict]:
        """Copies of all that a step could change."""
        return [
            copy.deepcopy({**network.state_dict(), "optimiser": list(optimiser.state.values())})
            for network, optimiser in zip(self.networks, self.optimisers, strict=True)
        ]


def same(first, second) -> bool:
    """True if two nested states are equal to the last bit."""
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


def assert_never_waits(make, settings: Settings, epoch: int, samples: int = 12) -> None:
    """Losses and gradients on tensors without values: what asks for one raises."""
    with FakeTensorMode():
        labels = torch.zeros(samples, dtype=torch.int64)
        stage = make(settings)
        # one_hot and the like may look at values, once.
        stage.begin(stub_run(labels, 3))
        logits = [torch.zeros(samples, 3, requires_grad=True) for _ in range(stage.networks)]
        losses = stage.losses(batch_of(labels, epoch), logits)
        assert all(loss.shape == () for loss in losses)
        assert all(g.shape == (samples, 3) for g in gradients(losses, logits))
        for update in stage.updates() or []:
            assert update.shape == ()
            assert update.dtype == torch.bool
