"""Check the numbers of find_label_issues on data whose true labels are known.

For each cell (data, noise, rate), way in and seed: whether the interval of the noise rate covers
the share of wrong labels, its width, the calibration error of label_quality, precision and recall
of the flags, and those of cleanlab with the probabilities of a logistic regression, of which 5-fold
cross-validation also gives `pred_probs`. Seeds from 100 on are for choosing settings, smaller ones
for judging them. Rows are appended to the CSV; a further call runs what is missing.

    python benchmarks/bench_honesty.py --csv honesty.csv --ways features pred_probs both
    python benchmarks/bench_honesty.py --csv honesty.csv --data ~/data --seeds 0 1 2
    python benchmarks/bench_honesty.py --csv honesty.csv --table
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import measure
import numpy as np
import torch
import transition_data
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transition_table import read

import ptd_ext

WAYS = ("features", "pred_probs", "both", "training")
KEYS = ("data", "noise", "rate", "way", "seed")
FIGURES = ("covered", "width", "rate_error", "calibration_error", "average_precision", "flagged",
           "precision", "recall", "f1", "cleanlab_f1", "jaccard", "seconds")  # fmt: skip
# Gaussian classes: rows, classes, columns, distance of a centre from zero, share of the first.
CLUSTERS = {
    "clusters_300": (300, 3, 5, 2.0, None),
    "clusters_1500": (1500, 3, 5, 2.0, None),
    "far_clusters_1000": (1000, 4, 10, 4.0, None),
    "uneven_95": (1500, 2, 5, 2.5, 0.95),
    "uneven_97": (1500, 2, 5, 2.5, 0.97),
    "classes_300": (9000, 300, 64, 8.0, None),
}
CLEAN = ("clean", 0.0)
NOISES = {
    **dict.fromkeys(
        ("iris", "wine", "digits", "clusters_1500", "far_clusters_1000"),
        (CLEAN, ("symmetric", 0.2), ("pairwise", 0.2), ("instance", 0.3)),
    ),
    "breast_cancer": (CLEAN, ("symmetric", 0.07), ("symmetric", 0.2)),
    "clusters_300": (("symmetric", 0.2), ("instance", 0.3)),
    "uneven_95": (("symmetric", 0.1),),
    "uneven_97": (("symmetric", 0.05),),
    "classes_300": (("symmetric", 0.2),),
    "digits_twice": (("symmetric", 0.2),),
    "cifar": (("worse", 0.0), ("aggregate", 0.0)),
    "hausa": (("words", 0.0),),
}
_REAL = ("cifar", "hausa")


def load(name: str, seed: int, folder: Path | None) -> tuple[np.ndarray, np.ndarray, dict]:
    """Rows, true labels, and noisy labels that came with them."""
    generator = np.random.default_rng(1000 + seed)
    if name in CLUSTERS:
        count, classes, columns, distance, share = CLUSTERS[name]
        centres = np.random.default_rng(7 + classes).normal(size=(classes, columns))
        centres *= distance / np.linalg.norm(centres, axis=1, keepdims=True)
        shares = None if share is None else (share, 1 - share)
        true = generator.choice(classes, size=count, p=shares)
        return centres[true] + generator.normal(size=(count, columns)), true, {}
    if name == "cifar":
        found = np.load(folder / "cifar10n_part.npz")
        rows = generator.permutation(len(found["y"]))[:3000]
        x = next(found[key] for key in found.files if found[key].shape == (10_000, 128))
        noisy = {"worse": found["worse_label"], "aggregate": found["aggre_label"]}
        noisy = {key: each[rows].astype(int) for key, each in noisy.items()}
        return x[rows].astype(float), found["y"][rows].astype(int), noisy
    if name == "hausa":
        found = transition_data.load(name, folder)
        return found.features.numpy(), found.labels.numpy(), {"words": found.noisy.numpy()}
    x, true = getattr(datasets, f"load_{name.partition('_twice')[0]}")(return_X_y=True)
    order = generator.permutation(len(x))
    x = x if name.startswith("digits") else StandardScaler().fit_transform(x)
    return x[order], true[order], {}


def noisy_labels(x: np.ndarray, true: np.ndarray, kind: str, rate: float, seed: int) -> np.ndarray:
    """Given labels of which a share of about `rate` is wrong."""
    classes = int(true.max()) + 1
    options: dict[str, Any] = {"random_state": seed, "n_classes": classes}
    if kind == "clean":
        return true
    if kind == "instance":
        source = torch.from_numpy(10 * StandardScaler().fit_transform(x)).float()
        noise = ptd_ext.instance_dependent_noise(source, true, rate, **options)
    else:
        make = {
            "symmetric": ptd_ext.noise.symmetric_noise,
            "pairwise": ptd_ext.noise.pairwise_noise,
        }[kind]
        noise = make(true, rate, **options)
    return noise.noisy_labels.numpy()


def out_of_fold(x: np.ndarray, given: np.ndarray, seed: int) -> np.ndarray:
    """P(given label | x) by a logistic regression in 5 folds."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200))
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return cross_val_predict(model, x, given, cv=folds, method="predict_proba")


def calibration_error(quality: np.ndarray, right: np.ndarray) -> float:
    """The mean difference of quality and the share of right labels, over 15 equal bins."""
    bins = np.minimum((15 * quality).astype(int), 14)
    gaps = [abs((quality - right)[bins == each].sum()) for each in range(15)]
    return float(sum(gaps) / len(quality))


def f1(flagged: np.ndarray, wrong: np.ndarray) -> float:
    """The harmonic mean of precision and recall."""
    return 2 * float((flagged & wrong).sum() / max(1, flagged.sum() + wrong.sum()))


def figures(found: ptd_ext.LabelIssues, again: Any, given: np.ndarray, true: np.ndarray) -> dict:
    """The figures of merit of findings; `again` are those of another seed, or None."""
    wrong, flagged, rate = given != true, found.is_label_issue, found.noise_rate.overall
    both = {} if again is None else {"jaccard": _jaccard(flagged, again.is_label_issue)}
    noisy = {}
    if wrong.any():
        noisy = {
            "average_precision": average_precision_score(wrong, 1 - found.label_quality),
            "precision": wrong[flagged].mean() if flagged.any() else 0.0,
            "recall": flagged[wrong].mean(),
            "f1": f1(flagged, wrong),
        }
    return {
        "wrong": wrong.mean(),
        "covered": float(rate.low <= wrong.mean() <= rate.high),
        "width": rate.high - rate.low,
        "rate_error": rate.estimate - wrong.mean(),
        "calibration_error": calibration_error(found.label_quality, ~wrong),
        "flagged": flagged.mean(),
        **noisy,
        **both,
    }


def _jaccard(one: np.ndarray, other: np.ndarray) -> float:
    return float((one & other).sum() / max(1, (one | other).sum()))


def run(arguments: argparse.Namespace) -> None:
    """Run and append what is missing."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="sklearn")
    done = {tuple(row[key] for key in KEYS) for row in read(arguments.csv)}
    for seed, name in itertools.product(arguments.seeds, NOISES):
        if name in _REAL and arguments.data is None:
            continue
        for kind, rate in NOISES[name]:
            cell = f"{name} {kind} {rate:g}"
            missing = [
                way for way in arguments.ways if (name, kind, str(rate), way, str(seed)) not in done
            ]
            if not missing or (arguments.cells and not any(c in cell for c in arguments.cells)):
                continue
            rows = _rows(name, kind, rate, seed, missing, arguments)
            used = measure.machine() | {p: version(p) for p in ("cleanlab", "scikit-learn")}
            rows = [row | used for row in rows]
            measure.write_csv(arguments.csv, rows, keep=lambda row: True)


def _rows(
    name: str, kind: str, rate: float, seed: int, ways: list[str], arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    from cleanlab.filter import find_label_issues as cleanlab_issues

    x, true, noisy = load(name, seed, arguments.data)
    given = noisy[kind] if kind in noisy else noisy_labels(x, true, kind, rate, seed)
    peer = {}
    if np.bincount(given).min() >= 5:
        p = out_of_fold(x, given, seed)
        peer["cleanlab_f1"] = f1(cleanlab_issues(given, p, n_jobs=1), given != true)
    else:
        ways = [way for way in ways if way not in ("pred_probs", "both")]
    if name.endswith("_twice"):
        x, true, given = np.tile(x, (2, 1)), np.tile(true, 2), np.tile(given, 2)
        p = np.tile(p, (2, 1))
    finders: dict[str, Callable[[int], Any]] = {
        "features": lambda _: ptd_ext.find_label_issues(None, given, features=x),
        "pred_probs": lambda _: ptd_ext.find_label_issues(None, given, pred_probs=p),
        "both": lambda _: ptd_ext.find_label_issues(None, given, pred_probs=p, features=x),
        "training": lambda s: ptd_ext.find_label_issues(x, given, random_state=s, progress=False),
    }
    rows = []
    for way in ways:
        start = time.process_time()
        found = finders[way](seed)
        spent = time.process_time() - start
        again = finders[way](seed + 1) if way == "training" and arguments.again else None
        key = dict(zip(KEYS, (name, kind, str(rate), way, str(seed)), strict=True))
        row = {**key, **figures(found, again, given, true), **peer, "seconds": spent}
        rows.append({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()})
        print(*rows[-1].values(), flush=True)
    return rows


def table(rows: list[dict[str, str]]) -> str:
    """Means over the judging seeds, a line for each cell and way."""
    cells: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        if int(row["seed"]) < 100:
            cells.setdefault(tuple(row[key] for key in KEYS[:4]), []).append(row)
    lines = [f"| {' | '.join((*KEYS[:4], 'runs', *FIGURES))} |", "|---" * (len(FIGURES) + 5) + "|"]
    for cell, found in sorted(cells.items(), key=lambda each: (each[0][3], each[0])):
        values = ([float(row[f]) for row in found if row.get(f)] for f in FIGURES)
        means = (f"{np.mean(each):.3f}" if each else "" for each in values)
        lines.append(f"| {' | '.join((*cell, str(len(found)), *means))} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--csv", type=Path, required=True, help="CSV file to append to")
    parser.add_argument("--data", type=Path, help="folder with CIFAR-10N and the Hausa topics")
    parser.add_argument("--cells", nargs="+", help='cells to run, by words of "data noise rate"')
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(20))
    parser.add_argument("--again", action="store_true", help="train with a second seed, too")
    parser.add_argument("--table", action="store_true", help="print the means of the CSV")
    arguments = parser.parse_args(argv)
    if arguments.table:
        print(table(read(arguments.csv)))
    else:
        run(arguments)


if __name__ == "__main__":
    main()
