"""The reports as Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from ptd_ext.train.methods.registry import METHODS
from ptd_ext.train.reproduce import published
from ptd_ext.train.reproduce.csv_rows import REFERENCE, significance_of
from ptd_ext.train.reproduce.formatting import beside, markdown_table, p_text
from ptd_ext.train.reproduce.grid import label
from ptd_ext.train.reproduce.results import Results
from ptd_ext.train.reproduce.statistics import Summary

__all__ = ["ablation_markdown", "accuracy_markdown"]

_NOT_IN_PAPER = "† not in the paper."


def accuracy_markdown(results: Results) -> str:
    """A section for every data set: the accuracies, then the significance test."""
    return "\n".join(
        _accuracy_section(data, results.where(data=data)) for data in results.distinct("data")
    )


def ablation_markdown(results: Results) -> str:
    """A section for every data set and rate: approximation error and accuracy over R."""
    return "\n".join(
        _ablation_section(data, rate, results.where(data=data, rate=rate))
        for data in results.distinct("data")
        for rate in results.where(data=data).distinct("rate")
    )


def _accuracy_section(data: str, results: Results) -> str:
    rates, methods = results.distinct("rate"), results.distinct("method")
    usual = _usual(results)
    table = {(m, r): results.where(method=m, rate=r).accuracy() for m in methods for r in rates}
    best = {rate: _best([table[method, rate] for method in methods], max) for rate in rates}

    def entry(method: str, rate: float | None) -> str:
        ours, printed = table[method, rate], published.accuracy(data, method, rate)
        return beside(ours, printed, usual=usual, best=ours.mean == best[rate])

    rows = [[label(method), *(entry(method, rate) for rate in rates)] for method in methods]
    realised = [results.where(rate=rate).mean("realised_rate") for rate in rates]
    if any(share is not None for share in realised):
        shares = ("–" if share is None else f"{100 * share:.1f} %" for share in realised)
        rows.append(["wrong labels, realised", *shares])
    meaning = (
        f"Clean test accuracy in per cent, ours (published): mean ± standard deviation (ddof = 1) "
        f"over {_seeds(usual)}, at the epoch chosen on noisy validation data. Bold: our best of "
        "a column."
    )
    return "\n".join(
        [
            f"## {data}\n",
            *_preface(results, meaning),
            markdown_table(["method", *map(_rate, rates)], rows),
            *_significance(data, results, rates),
        ]
    )


def _significance(data: str, results: Results, rates: list[float | None]) -> list[str]:
    """The p-values, where PTD-R-V and a baseline have two seeds each."""
    baselines = [m for m in results.distinct("method") if not METHODS[m].has_parts]
    rows, tested = [], False
    for method in baselines:
        row = [label(method)]
        for rate in rates:
            some = results.where(method=method, rate=rate)
            found = significance_of(results, some) if some else None
            p = math.nan if found is None else found
            tested = tested or not math.isnan(p)
            reference = results.where(method=REFERENCE, rate=rate).accuracy()
            worse = " ▼" if not math.isnan(p) and reference.mean < some.accuracy().mean else ""
            printed = published.significance(data, method, rate)
            row.append(p_text(p) + worse + ("" if printed is None else f" ({printed:.4f})"))
        rows.append(row)
    if not tested:
        return []
    return [
        f"p-values, ours (published), of {REFERENCE} against each baseline as in appendix D of the "
        "paper: Student's t-test of two independent samples (equal variances, two-sided) over the "
        "seeds, without correction for the number of tests. ▼: the baseline has the higher mean. "
        "The published values do not follow from the published means and deviations.\n",
        markdown_table([f"{REFERENCE} against", *map(_rate, rates)], rows),
    ]


def _ablation_section(data: str, rate: float | None, results: Results) -> str:
    usual = _usual(results)
    errors = _over_parts(
        results, data, rate, "approximation_error", Results.error, min, digits=3, usual=usual
    )
    accuracies = _over_parts(results, data, rate, "accuracy", Results.accuracy, max, usual=usual)
    meaning = (
        f"Ours (published): mean ± standard deviation (ddof = 1) over {_seeds(usual)}. Bold: our "
        "best of a row. Methods of one matrix do not depend on R. The paper calls Forward's matrix "
        "Class-dependent, and that of PTD-F and PTD-R, which is the same, PTD."
    )
    title = data if rate is None else f"{data}, {_rate(rate)} noise"
    return "\n".join(
        [
            f"## {title}\n",
            *_preface(results, meaning),
            "Approximation error, the mean of ‖p − T(x)_y‖₁.\n",
            errors or "No run has one: the true noise must be known.\n",
            "Clean test accuracy in per cent.\n",
            accuracies,
        ]
    )


def _over_parts(
    results: Results,
    data: str,
    rate: float | None,
    measure: str,
    summary: Callable[[Results], Summary],
    better: Callable[[list[float]], float],
    *,
    usual: int,
    digits: int = 2,
) -> str:
    """R in the rows and methods in the columns, like Tables 7 and 8; empty if no run has any."""
    methods = [m for m in results.distinct("method") if summary(results.where(method=m)).count]
    if not methods:
        return ""
    rows = []
    for parts in [p for p in results.distinct("parts") if p is not None]:
        ours = {}
        for method in methods:
            number = parts if METHODS[method].has_parts else None
            ours[method] = summary(results.where(method=method, parts=number))
        best = _best(list(ours.values()), better)
        row = [f"R = {parts}"]
        for method, value in ours.items():
            printed = published.ablation(measure, data, method, rate, parts)
            bold = value.mean == best
            row.append(beside(value, printed, usual=usual, best=bold, digits=digits))
        rows.append(row)
    return markdown_table(["", *map(label, methods)], rows)


def _preface(results: Results, meaning: str) -> list[str]:
    lines = [f"{results.about()}\n", f"{meaning}\n"]
    if mixed := results.mixed():
        lines.append(f"Not all cells were run alike: {'; '.join(mixed)}.\n")
    if any(not METHODS[method].published for method in results.distinct("method")):
        lines.append(f"{_NOT_IN_PAPER}\n")
    return lines


def _usual(results: Results) -> int:
    """The number of seeds that most means have; the larger one if two are as common."""
    cells = (result.cell for result in results)
    counts = Counter(Counter((c.rate, c.method, c.parts) for c in cells).values())
    return max(counts, key=lambda count: (counts[count], count))


def _best(summaries: list[Summary], better: Callable[[list[float]], Any]) -> float:
    means = [summary.mean for summary in summaries if summary.count]
    return better(means) if means else math.nan


def _rate(rate: float | None) -> str:
    return "real noise" if rate is None else f"{rate:g} %"


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"
