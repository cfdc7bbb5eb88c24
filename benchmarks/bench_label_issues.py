"""Compare find_label_issues with cleanlab on data whose true labels are known.

The peers use a logistic regression: cleanlab's `find_label_issues` and 1 − p(given label) use its
probabilities from 5-fold cross-validation. CleanLearning cross-validates it in the same folds and
thus has the same probabilities. ptd_ext uses its default settings, and in two rows the
probabilities of the peers. The rows of a run are appended to the CSV when the run ends; a further
call runs what is missing.

    python benchmarks/bench_label_issues.py --data ~/data --csv labels.csv
    python benchmarks/bench_label_issues.py --csv labels.csv --table
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import measure
import numpy as np
import torch
import transition_data
from label_issues_table import CLEANLAB, CROSS_FITTED, KEYS, OURS, SHUFFLED, table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transition_table import read

import ptd_ext

DATA = (
    "digits", "breast_cancer", "fashion_10k_pca", "fashion_10k_pixels", "fashion_60k_pca",
    "fashion_60k_pixels", "news_svd", "news_tfidf", "hausa_svd", "hausa_tfidf", "fashion_300_pca",
)  # fmt: skip
FASHION_ROWS = {"60k": 60_000, "10k": 10_000, "300": 300}
NOISES = [*itertools.product(("instance", "symmetric", "pairwise"), (0.2, 0.3, 0.4)), ("real", 0.0)]
NOISES += [(SHUFFLED, 1.0)]  # labels that do not depend on the rows: nothing should be flagged
# The best of 1, 0.1, 0.01 and 0.001 for the peers, by average precision on other seeds.
INVERSE_PENALTY = 0.01
_ACCURACIES: dict[tuple[bytes, bytes], float] = {}  # accuracies of a run, by labels and kept rows


@dataclass(frozen=True)
class Problem:
    """Rows to judge and clean rows to test on; noise is a function of `source`."""

    rows: Any
    labels: np.ndarray
    source: torch.Tensor
    test_rows: Any
    test_labels: np.ndarray
    real: np.ndarray | None = None  # noisy labels that came with the data


@dataclass(frozen=True)
class Found:
    """The judgement of every row: its doubt, whether it is flagged, and the suggested class."""

    doubt: np.ndarray
    flagged: np.ndarray
    suggested: np.ndarray
    rate: float


@cache
def load(name: str, folder: Path | None) -> Problem:
    """Load a data set by name."""
    if name in ("digits", "breast_cancer"):
        from sklearn import datasets

        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(x))
        test, train = order[: round(0.3 * len(x))], order[round(0.3 * len(x)) :]
        source = torch.from_numpy(x[train]).float()
        return Problem(x[train], y[train], source, x[test], y[test])
    kind = name.rpartition("_")[2]
    if name.startswith("fashion"):
        found = transition_data.load("fashion_mnist", None, whole=True)
        count = FASHION_ROWS[name.split("_")[1]]
        rows = found.raw[:count].flatten(1).float(), found.test_raw.flatten(1).float()
        given = rows if kind == "pixels" else transition_data.principal(*rows)
        labels = found.labels[:count].numpy(), found.test_labels.numpy()
        return Problem(given[0].numpy(), labels[0], rows[0], given[1].numpy(), labels[1])
    found = transition_data.load(name.partition("_")[0], folder)
    sparse = found.counts, found.test_counts
    given = sparse if kind == "tfidf" else (found.features.numpy(), found.test_features.numpy())
    real = None if found.noisy is None else found.noisy.numpy()
    # Features of text have a norm of 10, pixels one of thousands.
    labels = found.labels.numpy(), found.test_labels.numpy()
    return Problem(given[0], labels[0], 100 * found.raw, given[1], labels[1], real)


def noisy_labels(problem: Problem, kind: str, rate: float, seed: int) -> np.ndarray:
    """Given labels with a share of about `rate` wrong ones."""
    if kind == "real":
        return problem.real
    if kind == SHUFFLED:
        return np.random.default_rng(seed).permutation(problem.labels)
    classes = int(problem.labels.max()) + 1
    options = {"random_state": seed, "n_classes": classes}
    if kind == "instance":
        noise = ptd_ext.instance_dependent_noise(problem.source, problem.labels, rate, **options)
    else:
        make = {
            "symmetric": ptd_ext.noise.symmetric_noise,
            "pairwise": ptd_ext.noise.pairwise_noise,
        }[kind]
        noise = make(problem.labels, rate, **options)
    return noise.noisy_labels.numpy()


def regression(rows: Any) -> Any:
    """A logistic regression; TF-IDF features keep their scale and the default penalty."""
    if hasattr(rows, "tocsr"):
        return LogisticRegression(max_iter=200)
    return make_pipeline(StandardScaler(), LogisticRegression(C=INVERSE_PENALTY, max_iter=200))


def methods(rows: Any, given: np.ndarray, seed: int) -> dict[str, Callable[[], Found]]:
    """The judgements to compare; "1 - p" computes the probabilities that other methods share."""
    positions = np.arange(len(given))

    @cache
    def out_of_fold() -> np.ndarray:
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        model = regression(rows)
        return cross_val_predict(model, rows, given, cv=folds, method="predict_proba")

    def ours(found: ptd_ext.LabelIssues) -> Found:
        others = found.posterior.copy()
        others[positions, given] = -1
        flagged = found.is_label_issue
        return Found(1 - found.label_quality, flagged, others.argmax(1), float(found.noise_rate))

    def plain() -> Found:
        p = out_of_fold()
        flagged = p.argmax(1) != given
        return Found(1 - p[positions, given], flagged, p.argmax(1), flagged.mean())

    def cleanlab() -> Found:
        from cleanlab.filter import find_label_issues

        p = out_of_fold()
        flagged = find_label_issues(given, p, n_jobs=1)
        # It ranks only flagged rows; the others follow in the order of their quality.
        return Found(flagged + 1 - p[positions, given], flagged, p.argmax(1), flagged.mean())

    def clean_learning() -> Found:
        from cleanlab.classification import CleanLearning

        options = {"n_jobs": 1}
        model = CleanLearning(regression(rows), seed=seed, find_label_issues_kwargs=options)
        table = model.find_label_issues(rows, given, pred_probs=out_of_fold())
        flagged = table["is_label_issue"].to_numpy()
        doubt, predicted = 1 - table["label_quality"].to_numpy(), table["predicted_label"]
        return Found(doubt, flagged, predicted.to_numpy(), flagged.mean())

    def find(**options: Any) -> Callable[[], Found]:
        return lambda: ours(ptd_ext.find_label_issues(rows, given, random_state=seed, **options))

    def same_probabilities(**options: Any) -> Found:
        options["pred_probs"] = out_of_fold()
        return ours(ptd_ext.find_label_issues(None, given, random_state=seed, **options))

    found = {
        OURS: find(),
        "1 - p": plain,
        CLEANLAB[0]: cleanlab,
        CLEANLAB[1]: clean_learning,
        "ptd_ext pred_probs": same_probabilities,
        CROSS_FITTED: find(cross_fit=5),
    }
    if not hasattr(rows, "tocsr"):
        found["ptd_ext pred_probs, features"] = lambda: same_probabilities(features=rows)
    return found


def figures(problem: Problem, given: np.ndarray, found: Found) -> dict[str, Any]:
    """The figures of merit of a judgement."""
    wrong, flagged = given != problem.labels, found.flagged
    right = wrong & (found.suggested == problem.labels)
    relabelled = np.where(flagged, found.suggested, given)
    return {
        "wrong": wrong.mean(),
        "average_precision": average_precision_score(wrong, found.doubt),
        "flagged_per_wrong": flagged.sum() / wrong.sum(),
        "precision": wrong[flagged].mean() if flagged.any() else 0.0,
        "recall": flagged[wrong].mean(),
        "suggestion_right": right.sum() / wrong.sum(),
        "flagged_and_right": (right & flagged).sum() / wrong.sum(),
        "rate_error": abs(found.rate - wrong.mean()),
        "accuracy_dropped": _accuracy(problem, given, ~flagged),
        "accuracy_relabelled": _accuracy(problem, relabelled, slice(None)),
    }


def _accuracy(problem: Problem, labels: np.ndarray, kept: Any) -> float:
    """Clean test accuracy of a logistic regression fitted to the rows that are kept."""
    key = labels.tobytes(), kept.tobytes() if isinstance(kept, np.ndarray) else b""
    found = _ACCURACIES.get(key)  # methods that flag the same rows need no second fit
    if found is None:
        model = regression(problem.rows).fit(problem.rows[kept], labels[kept])
        found = _ACCURACIES[key] = model.score(problem.test_rows, problem.test_labels)
    return found


def run(arguments: argparse.Namespace) -> None:
    """Run and append what is missing."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="sklearn")
    done = {tuple(row[key] for key in (*KEYS, "method")) for row in read(arguments.csv)}
    for seed, name, (kind, rate) in itertools.product(arguments.seeds, DATA, NOISES):
        cell = f"{name} {kind} {rate:g}"
        chosen = not arguments.cells or any(words in cell for words in arguments.cells)
        same = cell.startswith("breast_cancer pairwise")  # equals symmetric noise for two classes
        real = kind == "real"
        if not chosen or same or (kind != SHUFFLED and real != name.startswith("hausa")):
            continue
        key = dict(zip(KEYS, map(str, (name, kind, rate, seed)), strict=True))
        missing = [m for m in arguments.methods if (*key.values(), m) not in done]
        if not missing:
            continue
        _ACCURACIES.clear()
        problem = load(name, arguments.data)
        given = noisy_labels(problem, kind, rate, seed)
        rows, before = [], _accuracy(problem, given, slice(None))
        compared = methods(problem.rows, given, seed)
        for method in (m for m in missing if m in compared):
            start = time.process_time()
            found = compared[method]()
            spent = {"cpu_seconds": time.process_time() - start, "accuracy_given": before}
            row = {**key, "method": method, **figures(problem, given, found), **spent}
            rows.append({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()})
            rows[-1] |= measure.machine() | {p: version(p) for p in ("cleanlab", "scikit-learn")}
            print(cell, seed, *list(rows[-1].values())[4:], flush=True)
        measure.write_csv(arguments.csv, rows, keep=lambda row: True)


def main(argv: list[str] | None = None) -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--csv", type=Path, required=True, help="CSV file to append to")
    parser.add_argument("--data", type=Path, help="folder with a sub-folder per data set")
    parser.add_argument(
        "--cells", nargs="+", help='cells to run, by words of "data noise rate" (default: all)'
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=range(1, 6))
    default = [OURS, "1 - p", *CLEANLAB, "ptd_ext pred_probs", "ptd_ext pred_probs, features"]
    parser.add_argument(
        "--methods", nargs="+", default=default, help=f"methods to run; also {CROSS_FITTED!r}"
    )
    parser.add_argument("--table", action="store_true", help="print the means of the CSV")
    arguments = parser.parse_args(argv)
    if arguments.table:
        print(table(read(arguments.csv)))
    else:
        run(arguments)


if __name__ == "__main__":
    main()
