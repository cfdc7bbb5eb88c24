"""Runs the training engine on rows in memory: chooses settings, trains, returns the result."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ptd_ext.label_issues.chance import log_likelihood
from ptd_ext.label_issues.training.members import Member
from ptd_ext.label_issues.training.progress import TrainingProgress
from ptd_ext.ops.functional import noisy_posterior
from ptd_ext.train.config.own_data import networks_for, schedule_for, validation_share
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.data.problem import Inputs, Problem, Scale
from ptd_ext.train.engine.signals import Stopped
from ptd_ext.train.engine.state import TransitionEstimate
from ptd_ext.train.engine.trainer import Trainer
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils.threads import using

__all__ = ["Trained", "candidate_networks", "fitting_settings", "split_rows", "train_network"]


@dataclass(frozen=True)
class Trained:
    """The result of training.

    Attributes:
        member: the network with its T(x), on the CPU.
        held_out_likelihood: log-likelihood of the given label of every held-out row.
        warm_up_accuracy: the share of held-out rows whose given label is predicted by the network
            that the warm-up chose, or the method where it has no warm-up.
        curves: validation accuracy and loss per epoch.
    """

    member: Member
    held_out_likelihood: Tensor
    warm_up_accuracy: float
    curves: dict[str, list[float]]


class _InMemory(Trainer):
    """Keeps in memory what a trainer with a folder writes there."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.written: dict[str, dict[str, Tensor]] = {}

    def write_tensors(self, name: str, state: dict[str, Tensor]) -> None:
        self.written[name] = copy.deepcopy(state)


def candidate_networks(shape: torch.Size) -> tuple[str, ...]:
    """The networks worth trying for samples of this shape."""
    if found := networks_for(shape):
        return found
    raise ValueError(
        f"X holds images of {shape[1]} × {shape[2]} pixels, on which no network is trained from "
        "random weights by default: it would take hours and do badly. Give feature_extractor, a "
        "function that returns frozen features of a pretrained network, or its file of weights; or "
        'name a network, such as network="resnet50".'
    )


def fitting_settings(
    samples: int, *, method: str, network: str, parts: int, epochs: int | None, seed: int
) -> Settings:
    """Return settings with a schedule that suits from a hundred to a million rows."""
    return Settings(
        dataset="npz",
        noise="none",
        method=method,
        network=network,
        parts=parts,
        seed=seed,
        progress=False,
        **schedule_for(samples, network, epochs),
    )


def split_rows(
    codes: Tensor, classes: int, share: float | None, seed: int
) -> tuple[Tensor, Tensor]:
    """Split positions into training and validation; each class keeps a row to train on."""
    if share is None:
        share = validation_share(len(codes))
    generator = torch.Generator().manual_seed(seed)
    held_out = []
    for label in range(classes):
        rows = (codes == label).nonzero()[:, 0]
        count = min(round(share * len(rows)), len(rows) - 1)
        held_out.append(rows[torch.randperm(len(rows), generator=generator)[: max(0, count)]])
    validation = torch.cat(held_out).sort().values
    if not len(validation):  # no class has enough rows: the first one validates, and trains too
        validation = torch.zeros(1, dtype=torch.int64)
        return torch.arange(len(codes)), validation
    kept = torch.ones(len(codes), dtype=torch.bool)
    kept[validation] = False
    return kept.nonzero()[:, 0], validation


def train_network(
    inputs: Tensor,
    codes: Tensor,
    names: Sequence[str],
    split: tuple[Tensor, Tensor],
    settings: Settings,
    device: torch.device,
    *,
    progress: bool | str = False,
) -> Trained:
    """Train by the settings' method on encoded rows.

    Args:
        inputs: encoded rows, [N, …].
        codes: class indices of the given labels, [N].
        names: the names of the classes.
        split: positions to train on, and to validate on.
        settings: the settings of the engine.
        device: the device to train on.
        progress: as in :class:`ptd_ext.PTDClassifier`.
    """
    train, held_out = split
    scale = Scale(None, None, settings.channels_last)
    validation = Inputs(inputs, held_out, scale)
    problem = Problem(
        name="rows",
        classes=len(names),
        class_names=tuple(names),
        train=Inputs(inputs, train, scale),
        validation=validation,
        # No clean labels are known: the accuracy on given labels stands in, and is not reported.
        test=validation,
        train_ids=train,
        train_labels=codes[train],
        validation_labels=codes[held_out],
        test_labels=codes[held_out],
        train_clean=None,
        train_rows=None,
        realised_rate=None,
        sample_shape=inputs.shape[1:],
        embedding=None,
        asked_rate=None,
    )
    log = TrainingProgress(progress)
    # The engine seeds torch's global generators; the caller's go on from where they were.
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        trainer = _InMemory(settings, problem, device, log=log)
        log.begin(settings.network, sum(stage.epochs for stage in trainer.stages))
        try:
            with using(trainer.worthwhile_threads()):
                trainer.train()
        except Stopped as stopped:
            raise KeyboardInterrupt(str(stopped)) from None
        finally:
            log.close()
    records = [json.loads(line) for line in trainer.log.records]
    learned = trainer.outputs.transition
    if learned is None:
        raise ValueError(f"method must be one with a T(x); {settings.method} has none.")
    transition = PartTransition(learned.parts, learned.basis, learned.slack, gate=learned.gate)
    transition = transition.to("cpu")
    network = trainer.best_network().cpu().eval()
    feature_network = None
    if transition.n_parts > 1 and "warm_up.pt" in trainer.written:
        feature_network = copy.deepcopy(network)
        feature_network.load_state_dict(trainer.written["warm_up.pt"])
    return Trained(
        member=Member(settings.network, network, feature_network, transition),
        held_out_likelihood=_held_out_likelihood(trainer, learned),
        warm_up_accuracy=trainer.held_out_accuracy(),
        curves={
            "accuracy on given labels of held-out rows, per cent": [
                r["validation_accuracy"] for r in records
            ],
            "training loss": [r["loss"] for r in records],
        },
    )


@torch.no_grad()
def _held_out_likelihood(trainer: Trainer, learned: TransitionEstimate) -> Tensor:
    logits = trainer.predict(trainer.best_network(), "validation").logits
    weights, labels = learned.validation_weights, trainer.problem.validation_labels
    posterior = noisy_posterior(logits, weights, learned.parts, learned.slack)
    return log_likelihood(posterior, labels).cpu()
