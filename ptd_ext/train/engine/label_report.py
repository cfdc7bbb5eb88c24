"""A report on the training labels: P(clean label | x, noisy label) of each, and a suggestion."""

from __future__ import annotations

import csv
from pathlib import Path

import torch

from ptd_ext.ops.functional import clean_posterior
from ptd_ext.train.engine.state import TransitionEstimate
from ptd_ext.train.engine.trainer import Trainer
from ptd_ext.utils.atomic_files import atomic_file

__all__ = ["write_label_report"]

_COLUMNS = (
    "sample",
    "noisy_label",
    "probability_right",
    "suggested_label",
    "probability_suggested",
)


@torch.no_grad()
def write_label_report(trainer: Trainer, estimate: TransitionEstimate, path: Path) -> None:
    """Write a line per training sample, the most doubtful label first.

    All ranks call it, as they share the prediction; the first one writes.
    """
    problem, t = trainer.problem, estimate
    logits = trainer.predict(trainer.best_network(), "train").logits
    if not trainer.ranks.first:
        return
    labels = problem.train_labels
    posterior = clean_posterior(logits, labels, t.weights, t.parts, t.slack)
    right = posterior.gather(1, labels[:, None])[:, 0]
    suggested, best = posterior.max(1).indices, posterior.max(1).values
    order = right.argsort(stable=True)
    columns = (problem.train_ids, labels, right, suggested, best)
    rows = zip(*(column[order.to(column.device)].tolist() for column in columns), strict=True)
    with atomic_file(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for row in rows:
            writer.writerow((row[0], row[1], f"{row[2]:.6f}", row[3], f"{row[4]:.6f}"))
