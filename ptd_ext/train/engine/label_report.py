"""Which training labels are wrong, and what they should be: P(clean label | x, noisy label)."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ptd_ext.ops.functional import clean_posterior
from ptd_ext.utils.atomic_files import whole_file

if TYPE_CHECKING:
    from ptd_ext.train.engine.trainer import Run

__all__ = ["write_findings"]

_COLUMNS = (
    "sample",
    "noisy_label",
    "probability_right",
    "suggested_label",
    "probability_suggested",
)


@torch.no_grad()
def write_findings(run: Run, path: Path) -> None:
    """A line per training sample, the most doubtful first; for methods that have a T(x).

    All ranks call it, as they share the prediction; the first one writes.
    """
    problem, kept = run.problem, run.kept
    network = run.network_chosen()
    logits = run.predict(network, "train").logits
    if not run.ranks.first:
        return
    labels = problem.train_labels
    slack = run.chosen["learned"].get("slack")
    posterior = clean_posterior(logits, labels, kept["weights"], kept["parts"], slack)
    right = posterior.gather(1, labels[:, None])[:, 0]
    suggested, best = posterior.max(1).indices, posterior.max(1).values
    order = right.argsort(stable=True)
    columns = (problem.train_ids, labels, right, suggested, best)
    ids, noisy, right, suggested, best = (
        column[order.to(column.device)].tolist() for column in columns
    )
    with whole_file(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for row in zip(ids, noisy, right, suggested, best, strict=True):
            writer.writerow((row[0], row[1], f"{row[2]:.6f}", row[3], f"{row[4]:.6f}"))
