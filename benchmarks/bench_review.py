"""What reviewed rows buy: the noise rate, the list of the other rows, and the accuracy.

Rows are reviewed by their true labels: 0, 50, 200 or 1,000, at random or from the top of the list.
Four ways to use them are compared on the same out-of-fold probabilities of a logistic regression:

    update    LabelIssues.update(verified), without anything done again
    verified  with --train: ptd_ext.find_label_issues(rows, labels, verified=…)
    replace   the verified labels replace the given ones, and all is done again
    GLC       T is counted on the reviewed rows (gold loss correction)
    nothing   the reviewed rows are only taken off the list

With --train, networks are trained instead, and GLC is left out. The rows of a run are appended to
the CSV; a further call runs what is missing.

    python benchmarks/bench_review.py --data ~/data --csv review.csv
    python benchmarks/bench_review.py --csv review.csv --table
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_label_issues as problems
import measure
import numpy as np
import torch
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from transition_table import read

import ptd_ext
from ptd_ext import clean_posterior
from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.label_issues.findings import judge
from ptd_ext.label_issues.without_training.inversion import invert_posterior

DATA = {  # name: kind and rate of the noise
    "digits": ("instance", 0.4),
    "fashion_10k_pca": ("instance", 0.4),
    "news_svd": ("instance", 0.4),
    "hausa_svd": ("real", 0.0),
    "cifar10n": ("real", 0.0),
}
REVIEWED = (0, 50, 200, 1000)
ORDERS = ("random", "top")
KEYS = ("data", "seed", "judged_by", "reviewed", "order", "method")
FIGURES = ("rate_error", "average_precision", "flagged_per_wrong", "accuracy")
_SMALLEST = 1e-30  # probabilities are clamped to it before their logarithm is taken


@dataclasses.dataclass(frozen=True)
class Judged:
    """A judgement of all labels: their quality, the flags, and the estimated noise rate."""

    quality: np.ndarray
    flagged: np.ndarray
    rate: float

    @classmethod
    def of(cls, found: ptd_ext.LabelIssues) -> Judged:
        """The judgement in findings."""
        return cls(found.label_quality, found.is_label_issue, float(found.noise_rate))


def load(name: str, folder: Path | None) -> problems.Problem:
    """Load a data set by name."""
    if name != "cifar10n":
        return problems.load(name, folder)
    held = np.load(folder / "cifar10n_part.npz")
    rows, test = (held[part].astype(np.float32) for part in ("x", "x_test"))
    labels, worse = held["y"].astype(int), held["worse_label"].astype(int)
    test_labels = held["y_test"].astype(int)
    return problems.Problem(rows, labels, torch.from_numpy(rows), test, test_labels, worse)


def probabilities(rows: Any, labels: np.ndarray, seed: int) -> np.ndarray:
    """Out-of-fold probabilities of a logistic regression."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    model = problems.regression(rows)
    return cross_val_predict(model, rows, labels, cv=folds, method="predict_proba")


def finder(rows: Any, seed: int, train: bool) -> Callable[..., ptd_ext.LabelIssues]:
    """The function that judges labels."""

    def find(labels: np.ndarray, **options: Any) -> ptd_ext.LabelIssues:
        options["random_state"] = seed
        if train:
            return ptd_ext.find_label_issues(rows, labels, progress=False, **options)
        p = probabilities(rows, labels, seed)
        return ptd_ext.find_label_issues(None, labels, pred_probs=p, **options)

    return find


def gold_loss_correction(
    given: np.ndarray, true: np.ndarray, rows: np.ndarray, p: np.ndarray
) -> Judged:
    """T as mean probabilities of the reviewed rows of each true class, uniform without any."""
    classes = p.shape[1]
    transition = np.full((classes, classes), 1 / classes)
    for label in range(classes):
        own = rows[true[rows] == label]
        if len(own):
            transition[label] = p[own].mean(0)
    matrix = torch.from_numpy(transition)
    g = invert_posterior(torch.from_numpy(p), None, matrix).clamp(min=_SMALLEST)
    posterior = clean_posterior(g.log(), torch.from_numpy(given), None, matrix)
    labels = GivenLabels(given, np.arange(classes))
    return Judged.of(judge(posterior.float().numpy(), labels, transition))


def figures(
    problem: problems.Problem, given: np.ndarray, rows: np.ndarray, found: Judged
) -> dict[str, float]:
    """The figures of merit; all but the rate's are those of rows that were not reviewed."""
    wrong, rest = given != problem.labels, np.ones(len(given), dtype=bool)
    rest[rows] = False
    labels = np.where(rest, given, problem.labels)
    kept = ~found.flagged | ~rest
    model = problems.regression(problem.rows).fit(problem.rows[kept], labels[kept])
    return {
        "wrong": wrong.mean(),
        "rate_error": abs(found.rate - wrong.mean()),
        "average_precision": average_precision_score(wrong[rest], 1 - found.quality[rest]),
        "flagged_per_wrong": found.flagged[rest].sum() / max(1, wrong[rest].sum()),
        "accuracy": model.score(problem.test_rows, problem.test_labels),
    }


def compared(
    problem: problems.Problem, given: np.ndarray, seed: int, train: bool
) -> list[dict[str, Any]]:
    """All figures of a data set and a seed."""
    find = finder(problem.rows, seed, train)
    found, true = find(given), problem.labels
    p = None if train else probabilities(problem.rows, given, seed)
    lines = []
    for reviewed, order in itertools.product(REVIEWED, ORDERS):
        if reviewed > 0.7 * len(given) or (not reviewed and order != ORDERS[0]):
            continue
        rows = found.most_doubtful()
        if order == "random":
            rows = np.random.default_rng(seed).permutation(len(given))
        rows = rows[:reviewed]
        replaced = given.copy()
        replaced[rows] = true[rows]
        ways = {"nothing": lambda: Judged.of(found)}
        if reviewed:
            verified = dict(zip(rows.tolist(), true[rows].tolist(), strict=True))
            corrected = (given != replaced).mean()
            ways["update"] = lambda v=verified: Judged.of(found.update(v))
            ways["replace"] = lambda r=replaced, c=corrected: with_rate(find(r), c)
            if p is None:
                ways["verified"] = lambda v=verified: Judged.of(find(given, verified=v))
            else:
                ways["GLC"] = lambda r=rows: gold_loss_correction(given, true, r, p)
        for method, way in ways.items():
            figure = figures(problem, given, rows, way())
            line = {"reviewed": reviewed, "order": order, "method": method, **figure}
            lines.append(line)
            print(
                {k: f"{v:.3f}" if isinstance(v, float) else v for k, v in line.items()}, flush=True
            )
    return lines


def with_rate(found: ptd_ext.LabelIssues, corrected: float) -> Judged:
    """Findings on replaced labels; the labels that were corrected count as wrong, too."""
    judged = Judged.of(found)
    return dataclasses.replace(judged, rate=judged.rate + corrected)


def run(arguments: argparse.Namespace) -> None:
    """Run and append what is missing."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="sklearn")
    judged_by = "training" if arguments.train else "pred_probs"
    done = {tuple(row[key] for key in KEYS[:3]) for row in read(arguments.csv)}
    for seed, name in itertools.product(arguments.seeds, arguments.names):
        key = dict(zip(KEYS, (name, str(seed), judged_by), strict=False))
        if tuple(key.values()) in done:
            continue
        print(key, flush=True)
        problem = load(name, arguments.data)
        kind, rate = DATA[name]
        given = problems.noisy_labels(problem, kind, rate, seed)
        lines = compared(problem, given, seed, arguments.train)
        rows = [
            {**key, **{k: f"{v:.4f}" if isinstance(v, float) else v for k, v in line.items()}}
            for line in lines
        ]
        machine = measure.machine()
        measure.write_csv(arguments.csv, [row | machine for row in rows], keep=lambda row: True)


def table(rows: list[dict[str, str]]) -> str:
    """The means over seeds, as Markdown."""
    cells: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        key = tuple(row[name] for name in KEYS if name != "seed")
        cells.setdefault(key, []).append(row)
    head = (*(name for name in KEYS if name != "seed"), *FIGURES)
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for key, found in cells.items():
        means = [f"{np.mean([float(row[name]) for row in found]):.3f}" for name in FIGURES]
        lines.append("| " + " | ".join((*key, *means)) + " |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--csv", type=Path, required=True, help="CSV file to append to")
    parser.add_argument("--data", type=Path, help="folder with a sub-folder per data set")
    parser.add_argument("--names", nargs="+", default=list(DATA), help="data sets to run")
    parser.add_argument("--seeds", nargs="+", type=int, default=range(1, 4))
    parser.add_argument("--train", action="store_true", help="train networks to judge by")
    parser.add_argument("--table", action="store_true", help="print the means of the CSV")
    arguments = parser.parse_args(argv)
    if arguments.table:
        print(table(read(arguments.csv)))
    else:
        run(arguments)


if __name__ == "__main__":
    main()
