"""fit: the one way in which rows and labels become a FittedModel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.engine.methods.registry import stages_of
from ptd_ext.engine.model.chance import (
    CLEARLY,
    FEW_ROWS,
    beats_chance_on_few_rows,
    chance_warning,
    log_likelihood,
)
from ptd_ext.engine.model.fitted_model import FittedModel, Outcome, Validation
from ptd_ext.engine.model.members import Member
from ptd_ext.engine.rows.copies import groups_of_copies
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.logger import Log
from ptd_ext.engine.stage.observer import Observer
from ptd_ext.engine.training.placement import Placement
from ptd_ext.engine.training.signals import Stopped
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.ops.functional import noisy_posterior
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils.threads import using

_MUCH_BETTER = 0.1  # nats of log-likelihood a row


@dataclass(frozen=True)
class _Trained:
    """A trained network, and how it explains held-out labels."""

    member: Member
    likelihood: Tensor  # the log-likelihood of the given label of every held-out row
    accuracy: float
    curves: dict[str, list[float]]
    outcome: Outcome


def fit(
    data: TrainingData,
    candidates: Sequence[Settings],
    classes: NDArray[Any],
    place: Placement,
    *,
    out: Path | None = None,
    resume: bool = False,
    log: Log | None = None,
    observer: Observer | None = None,
    begin: Callable[[], None] | None = None,
) -> FittedModel:
    """Train on rows with given labels, some of which are wrong.

    Args:
        data: the rows and labels, some of them held out.
        candidates: the settings of each network to try, the simplest network first. With several,
            those that explain held-out labels best are kept: see ``_chosen``.
        classes: the class labels, [C].
        place: the device and the ranks.
        out: the folder for metrics and checkpoints; several candidates have a sub-folder
            each. None keeps nothing on the disk.
        resume: continue from the checkpoint in the folder, if there is one.
        log: the lines and records of training.
        observer: figures that only an experiment can know.
        begin: called once all checks have passed, before the first step.

    Returns:
        The networks with their T(x), on the device of `place`.
    """
    for settings in candidates:
        stages_of(settings, data)  # checks all candidates before the first is trained
    log = log or Log(quiet=True)
    found: list[_Trained] = []
    for settings in candidates:
        folder = out / settings.network if out is not None and len(candidates) > 1 else out
        first = None if found else begin
        found.append(_trained(data, settings, place, folder, resume, log, observer, first))
    chosen = _chosen(found)
    best = chosen[0]
    seconds = sum(each.outcome.seconds for each in found)
    return FittedModel(
        tuple(each.member for each in chosen),
        data.train.preprocessing,
        classes,
        candidates[0].method,
        _validation(data, chosen),
        best.curves,
        data.fingerprint(),
        outcome=replace(best.outcome, seconds=seconds),
    )


def _trained(
    data: TrainingData,
    settings: Settings,
    place: Placement,
    out: Path | None,
    resume: bool,
    log: Log,
    observer: Observer | None,
    begin: Callable[[], None] | None,
) -> _Trained:
    """Train one network by the settings' method."""
    device = place.device
    # The generators of the caller go on from where they were.
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        trainer = Trainer(
            settings, data, device, out=out, ranks=place.ranks, log=log, observer=observer
        )
        if begin is not None:
            begin()
        log.begin(settings.network, sum(stage.epochs for stage in trainer.stages))
        if out is not None and place.ranks.first:
            out.mkdir(parents=True, exist_ok=True)
            log.open(out, tensorboard=settings.tensorboard)
        try:
            with using(settings.threads or trainer.worthwhile_threads()):
                trainer.train(resume=resume)
                return _result(trainer)
        except Stopped as stopped:
            if out is None:  # nothing has been saved that could be continued
                raise KeyboardInterrupt(str(stopped)) from None
            raise
        finally:
            log.close()


@torch.no_grad()
def _result(trainer: Trainer) -> _Trained:
    settings, data, t = trainer.settings, trainer.data, trainer.outputs.estimate
    network = trainer.network_of(trainer.best.network)
    part_transition = features = None
    logits = trainer.predict(network, "validation").logits
    posterior = logits.softmax(1)
    if t is not None:
        part_transition = PartTransition(t.parts, t.basis, t.slack, gate=t.gate)
        # The one part of a kept start has weight 1 everywhere.
        if trainer.outputs.feature_network is not None and len(t.parts) > 1:
            features = trainer.network_of(trainer.outputs.feature_network)
        posterior = noisy_posterior(logits, t.validation_weights, t.parts, t.slack)
    member = Member(settings.network, network, features, part_transition)
    if data.is_table:  # so that a row's result hardly depends on its batch
        member = member.to(torch.float64)
    log, records = trainer.log, trainer.log.records
    titles = {
        f"{log.validation} accuracy, per cent": "validation_accuracy",
        f"{log.test} accuracy, per cent": "test_accuracy",
        "training loss": "loss",
    }
    curves = {
        title: [record[name] for record in records]
        for title, name in titles.items()
        if records and name in records[0]
    }
    return _Trained(
        member,
        log_likelihood(posterior, data.validation_labels).cpu(),
        trainer.held_out_accuracy(),
        curves,
        Outcome(trainer.best.scores, trainer.last or trainer.best.scores, trainer.seconds),
    )


def _chosen(found: Sequence[_Trained]) -> list[_Trained]:
    """The networks to judge by, out of all from the simplest to the largest; the best comes first.

    A larger network joins if it explains held-out labels better: the mean of two networks that
    explain them about alike ranks rows better than either. If it explains them much better, it
    replaces the smaller ones.
    """
    chosen = [found[0]]
    for other in found[1:]:
        gain = (other.likelihood - chosen[0].likelihood).double()
        error = gain.std(correction=0).item() / len(gain) ** 0.5
        if gain.mean().item() > max(_MUCH_BETTER, CLEARLY * error):
            chosen = [other]
        elif gain.mean().item() > 0:
            chosen.insert(0, other)
    return chosen


def _validation(data: TrainingData, chosen: Sequence[_Trained]) -> Validation:
    """How the best network does on held-out labels, and whether that beats chance."""
    best, labels = chosen[0], data.labels().cpu()
    held_out = data.validation_labels.cpu()
    warning = chance_warning("The network", best.accuracy, labels, held_out, best.likelihood)
    if warning is not None and data.embedding is None and _few_rows_beat_chance(data, chosen):
        warning = None
    return Validation(len(held_out), best.accuracy, warning is None, warning or "")


def _few_rows_beat_chance(data: TrainingData, chosen: Sequence[_Trained]) -> bool:
    """The test for few rows, of which too few are held out; with many rows it returns false."""
    labels = data.labels().cpu()
    if len(labels) > FEW_ROWS:
        return False
    rows, predicted = [], []
    for part in (data.train, data.validation):
        rows.append(part.fetch(torch.arange(len(part)), torch.device("cpu")))
        found = [each.member.logits(part).softmax(1) for each in chosen]
        predicted.append(torch.stack(found).mean(0).argmax(1).cpu())
    inputs, guesses = torch.cat(rows), torch.cat(predicted)
    # A copy of a row would predict its label, whatever the labels are.
    once = np.unique(groups_of_copies(inputs, labels), return_index=True)[1]
    return beats_chance_on_few_rows(inputs[once], labels[once], guesses[once])
