"""The labels of all rows judged: how likely each is right, and what it should be."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.label_issues.chance import (
    FEW_ROWS,
    beats_chance_on_few_rows,
    chance_warning,
    log_likelihood,
)
from ptd_ext.label_issues.files.findings_file import write_issues
from ptd_ext.label_issues.findings import LabelIssues, judge
from ptd_ext.label_issues.inputs.labels import GivenLabels
from ptd_ext.label_issues.inputs.samples import png_of
from ptd_ext.label_issues.report.contents import Sample
from ptd_ext.label_issues.training.members import expected_joint
from ptd_ext.ops.functional import clean_posterior, noisy_posterior, transition_matrix
from ptd_ext.train.data.image_files import ImageFiles
from ptd_ext.train.data.problem import Problem
from ptd_ext.train.engine.evaluate import predict
from ptd_ext.train.engine.state import TransitionEstimate
from ptd_ext.train.engine.trained_model import class_values, feature_network, part_transition
from ptd_ext.train.engine.trainer import Trainer
from ptd_ext.transition.summary import summarise
from ptd_ext.utils.distributed import Ranks

__all__ = ["ISSUES", "REPORT", "TABLE", "write_label_report"]

TABLE, ISSUES, REPORT = "labels.csv", "labels.safetensors", "report.html"
_PICTURE_SIDE = 128  # pixels at which image files are decoded for the page
_COLUMNS = 12  # of a row that the page shows


@torch.no_grad()
def write_label_report(trainer: Trainer, out: Path) -> None:
    """Write the findings on every row as a table, as tensors, and as a page to look at.

    All ranks call it, as they share the prediction; the first one writes.
    """
    splits = trainer.problem.rows.splits
    network = trainer.best_network()
    logits = torch.cat([trainer.predict(network, split).logits for split in splits])
    if not trainer.ranks.first:
        return
    found = _judge(trainer, logits, trainer.outputs.estimated())
    found.to_csv(out / TABLE)
    write_issues(found, out / ISSUES)
    if trainer.settings.report:
        title = f"Labels of {trainer.problem.name}, judged by {trainer.settings.method}"
        found.report(out / REPORT, title=title)
    trainer.log.say(str(found))


def _judge(trainer: Trainer, logits: Tensor, t: TransitionEstimate) -> LabelIssues:
    problem, rows = trainer.problem, trainer.problem.rows
    labels = [problem.train_labels, problem.validation_labels]
    weights = [t.weights, t.validation_weights]
    if rows.test_labels is not None:
        labels.append(rows.test_labels.to(trainer.device))
        weights.append(_test_weights(trainer, t))
    codes, h = torch.cat(labels), torch.cat(weights)
    posterior = clean_posterior(logits, codes, h, t.parts, t.slack).cpu()
    mean = transition_matrix(h.mean(0, keepdim=True), t.parts, t.slack)[0].cpu().double()
    several = len(t.parts) > 1
    trusted, warnings = _doubts(trainer, t, codes.cpu(), logits)
    order = rows.order()
    return judge(
        posterior.numpy()[order],
        GivenLabels(codes.cpu().numpy()[order], class_values(problem.class_names)),
        mean.numpy(),
        joint=expected_joint(logits, h, part_transition(t)).cpu().double().numpy(),
        ids=_ids(problem)[order],
        trusted=trusted,
        parts=t.parts.cpu().double().numpy() if several else None,
        part_shares=h.mean(0).cpu().double().numpy() if several else None,
        warnings=warnings,
        facts=_facts(trainer, len(codes)),
        curves=_curves(trainer),
        sample=_show_rows(problem, order),
    )


def _test_weights(trainer: Trainer, t: TransitionEstimate) -> Tensor:
    """h(x) of test samples, which training has no use for."""
    network = feature_network(trainer)
    if network is None:
        return t.weights.new_ones(len(trainer.problem.test), 1)
    # The first rank alone writes the report, so that the others have no share in this.
    found = predict(network, trainer.problem.test, trainer.device, Ranks(), features=True)
    return part_transition(t).weights(found.features).to(t.weights)


def _doubts(
    trainer: Trainer, t: TransitionEstimate, codes: Tensor, logits: Tensor
) -> tuple[bool, tuple[str, ...]]:
    """Whether the network beats chance, and sentences on what to distrust."""
    problem = trainer.problem
    held_out, begin = problem.validation_labels, len(problem.train_labels)
    posterior = noisy_posterior(
        logits[begin : begin + len(held_out)], t.validation_weights, t.parts, t.slack
    )
    likelihood = log_likelihood(posterior, held_out).cpu()
    accuracy = trainer.held_out_accuracy()
    chance = chance_warning("The network", accuracy, codes, held_out.cpu(), likelihood)
    if chance is not None and not _few_rows_beat_chance(trainer):
        return False, (chance,)
    prior = codes.bincount(minlength=problem.classes) if t.class_prior is None else t.class_prior
    sizes = len(problem.train_labels), t.weights.cpu()
    found = summarise(t.parts.cpu(), prior.cpu(), *sizes, names=problem.class_names)
    return True, tuple(text[:1].upper() + text[1:] for text in found.doubts)


def _few_rows_beat_chance(trainer: Trainer) -> bool:
    """The test of small tables; of larger ones and of images, held-out samples tell."""
    problem = trainer.problem
    labels = torch.cat([problem.train_labels, problem.validation_labels])
    table = len(problem.sample_shape) == 1 and problem.embedding is None
    if not table or len(labels) > FEW_ROWS:
        return False
    network, device = trainer.best_network(), trainer.device
    rows, predicted = [], []
    for part in (problem.train, problem.validation):
        rows.append(part.fetch(torch.arange(len(part), device=part.device), part.device).cpu())
        # The first rank alone writes the report, so that the others have no share in this.
        predicted.append(predict(network, part, device, Ranks()).logits.argmax(1).cpu())
    return beats_chance_on_few_rows(torch.cat(rows), labels.cpu(), torch.cat(predicted))


def _facts(trainer: Trainer, count: int) -> dict[str, str]:
    problem, settings = trainer.problem, trainer.settings
    facts = {
        "rows": f"{count:,}",
        "classes": str(problem.classes),
        "method": settings.method,
        "network": settings.network,
    }
    if trainer.outputs.warm_up_accuracy is not None:
        accuracy = trainer.outputs.warm_up_accuracy.item()
        facts[f"{problem.validation_name} accuracy after the warm-up"] = f"{accuracy:.1%}"
    facts[f"{problem.test_name} accuracy"] = f"{trainer.best.scores.test_accuracy:.1f}%"
    return facts


def _curves(trainer: Trainer) -> dict[str, list[float]]:
    problem, records = trainer.problem, [json.loads(line) for line in trainer.log.records]
    names = {
        f"{problem.validation_name} accuracy, per cent": "validation_accuracy",
        f"{problem.test_name} accuracy, per cent": "test_accuracy",
        "training loss": "loss",
    }
    return {title: [record[name] for record in records] for title, name in names.items()}


def _ids(problem: Problem) -> NDArray[Any]:
    """The ids of all judged samples, split by split."""
    rows = problem.rows
    found: list[Any] = []
    for split in rows.splits:
        inputs, positions = getattr(problem, split), rows.of(split).cpu()
        if isinstance(inputs.stored, ImageFiles):
            here = range(len(inputs)) if inputs.positions is None else inputs.positions.tolist()
            found += [inputs.stored.name(position) for position in here]
        elif rows.names is not None:
            found += rows.names[positions.numpy()].tolist()
        else:
            found += positions.tolist()
    return np.array(found) if found and isinstance(found[0], int) else np.array(found, dtype=object)


def _show_rows(problem: Problem, order: NDArray[np.int64]) -> Callable[[int], Sample] | None:
    """Return a function that shows a judged sample; None for tokens, and without Pillow."""
    images = len(problem.sample_shape) == 3
    if problem.embedding is not None or (images and importlib.util.find_spec("PIL") is None):
        return None
    splits = [getattr(problem, split) for split in problem.rows.splits]
    ends = np.cumsum([len(inputs) for inputs in splits])

    def show(row: int) -> Sample:
        position = int(order[row])
        number = int(np.searchsorted(ends, position, side="right"))
        inputs = splits[number]
        position -= int(ends[number]) - len(inputs)
        if isinstance(inputs.stored, ImageFiles):
            where = position if inputs.positions is None else int(inputs.positions[position])
            smaller = inputs.stored.resized(min(_PICTURE_SIDE, inputs.stored.size))
            return Sample(png=png_of(smaller[torch.tensor([where])][0].numpy()))
        values = inputs.stored[position].cpu()
        if images:
            return Sample(png=png_of(values.numpy()))
        if problem.column_scale is not None:
            values = problem.column_scale.undo(values)
        shown = enumerate(values.tolist()[:_COLUMNS])
        return Sample(row={str(column): f"{value:.4g}" for column, value in shown})

    return show
