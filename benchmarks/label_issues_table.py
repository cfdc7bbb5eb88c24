"""Summarise the rows of bench_label_issues.py in a table, and compare them with the targets."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import numpy as np

OURS = "ptd_ext"
CROSS_FITTED = "ptd_ext cross_fit=5"
CLEANLAB = ("cleanlab", "CleanLearning")
SHUFFLED = "shuffled"
NAMES = {
    "breast_cancer": "breast cancer",
    "fashion_300_pca": "Fashion-MNIST 300, PCA",
    "fashion_10k_pca": "Fashion-MNIST 10,000, PCA",
    "fashion_10k_pixels": "Fashion-MNIST 10,000, pixels",
    "fashion_60k_pca": "Fashion-MNIST 60,000, PCA",
    "fashion_60k_pixels": "Fashion-MNIST 60,000, pixels",
    "news_svd": "20 Newsgroups, SVD",
    "news_tfidf": "20 Newsgroups, TF-IDF",
    "hausa_svd": "Hausa topics, SVD",
    "hausa_tfidf": "Hausa topics, TF-IDF",
}
KEYS = ("data", "noise", "rate", "seed")

Row = dict[str, str]


def table(rows: list[Row]) -> str:
    """Means over seeds and rates for each data set and kind of noise, and the targets."""
    lines = [
        "| data | noise | runs | AP | cleanlab | CleanLearning | flagged | precision | recall |"
        " right class | cleanlab | rate error | accuracy: given | dropped | relabelled | s |",
        "|---" * 16 + "|",
    ]
    shuffled = [row for row in rows if row["noise"] == SHUFFLED]
    rows = [row for row in rows if row["noise"] != SHUFFLED]
    mine = [row for row in rows if row["method"] == OURS]
    peers = {(*_key(row), row["method"]): row for row in rows}
    for data, noise in dict.fromkeys((row["data"], row["noise"]) for row in mine):
        cell = [row for row in mine if (row["data"], row["noise"]) == (data, noise)]

        def mean(field: str, method: str = OURS, cell: list[Row] = cell) -> str:
            found = [peers[(*_key(r), method)] for r in cell if (*_key(r), method) in peers]
            values = [float(row[field]) for row in found]
            return f"{statistics.mean(values):.3f}" if values else "–"

        precision = "average_precision"
        texts = [NAMES.get(data, data), noise, str(len(cell)), mean(precision)]
        texts += [mean(precision, peer) for peer in CLEANLAB]
        texts += [mean(field) for field in ("flagged_per_wrong", "precision", "recall")]
        texts += [mean("suggestion_right"), mean("suggestion_right", CLEANLAB[0])]
        accuracies = [f"accuracy_{labels}" for labels in ("given", "dropped", "relabelled")]
        texts += [mean(field) for field in ("rate_error", *accuracies)]
        texts += [f"{float(mean('cpu_seconds')):.0f}"]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join([*lines, "", *_targets(rows), *_at_chance(shuffled)])


def _targets(rows: list[Row]) -> Iterable[str]:
    """The number of combinations of data, noise and rate that reach each target on average."""
    cells: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    for row in rows:
        cells.setdefault(_key(row)[:3], {}).setdefault(row["method"], []).append(row)

    def mean(cell: tuple[str, ...], method: str, field: str) -> float:
        found = cells[cell].get(method, [])
        return statistics.mean(float(row[field]) for row in found) if found else float("nan")

    def best(cell: tuple[str, ...], field: str) -> float:
        return np.nanmax([mean(cell, peer, field) for peer in CLEANLAB])

    both = [cell for cell, found in cells.items() if {OURS, CLEANLAB[0]} <= set(found)]
    gain = {c: mean(c, OURS, "average_precision") - best(c, "average_precision") for c in both}
    low = {" ".join(cell): f"{value:.3f}" for cell, value in gain.items() if value < -0.01}
    yield f"average precision at least cleanlab's - 0.01: {len(both) - len(low)} of {len(both)}"
    yield f"  not in {low}"
    hard = [gain[c] for c in both if c[1] == "instance" and float(c[2]) > 0.25]
    if hard:
        yield f"gain over instance-dependent noise of 30 and 40 %: {statistics.mean(hard):.3f}"
    runs = [r for r in rows if r["method"] == OURS]
    near = [r for r in runs if abs(float(r["flagged_per_wrong"]) - 1) <= 0.25]
    yield f"flags within a quarter of the wrong rows: {len(near)} of {len(runs)} runs"
    flags = {c: mean(c, OURS, "flagged_per_wrong") for c in cells if OURS in cells[c]}
    far = {" ".join(cell): f"{value:.2f}" for cell, value in flags.items() if abs(value - 1) > 0.25}
    yield f"  by means over seeds {len(flags) - len(far)} of {len(flags)}, not in {far}"
    for field in ("suggestion_right", "flagged_and_right"):
        right = [c for c in both if mean(c, OURS, field) >= best(c, "suggestion_right")]
        yield f"{field} at least cleanlab's predicted class: {len(right)} of {len(both)}"
    folded = {_key(row) for row in rows if row["method"] == CROSS_FITTED}
    for method in (OURS, CROSS_FITTED) if folded else ():
        mine = [row for row in rows if row["method"] == method and _key(row) in folded]
        fields = ("average_precision", "flagged_per_wrong", "rate_error", "cpu_seconds")
        values = [f"{f} {statistics.mean(float(row[f]) for row in mine):.3f}" for f in fields]
        yield f"{method} over {len(mine)} runs: {', '.join(values)}"


def _at_chance(rows: list[Row]) -> Iterable[str]:
    """The number of runs with labels independent of the rows in which rows are flagged."""
    for method in dict.fromkeys(row["method"] for row in rows):
        flags = [float(row["flagged_per_wrong"]) for row in rows if row["method"] == method]
        some = sum(share > 0 for share in flags)
        yield f"labels shuffled: {method} flags rows in {some} of {len(flags)} runs"


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[key] for key in KEYS)
