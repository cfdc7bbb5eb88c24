"""The tables as Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.experiments.reproduce import published
from ptd_ext.experiments.reproduce.grid import label
from ptd_ext.experiments.reproduce.results import REFERENCE, Means, Results
from ptd_ext.experiments.reproduce.statistics import Summary


def accuracy_markdown(results: Results) -> str:
    """A section per data set, with the accuracies and the significance test."""
    return "\n".join(
        _accuracy_section(data, results.where(data=data)) for data in results.distinct("data")
    )


def ablation_markdown(results: Results) -> str:
    """A section per data set and rate, with approximation error and accuracy over R."""
    return "\n".join(
        _ablation_section(data, rate, results.where(data=data, rate=rate))
        for data in results.distinct("data")
        for rate in results.where(data=data).distinct("rate")
    )


def beside(
    ours: Summary, printed: Summary | None, *, usual: int, best: bool = False, digits: int = 2
) -> str:
    """Format `ours (published)`, with a dash for a missing mean and an unusual number of runs."""
    text = "–"
    if ours.count:
        text = f"**{ours.text(digits)}**" if best else ours.text(digits)
        text += f" n = {ours.count}" if ours.count != usual else ""
    return f"{text} ({printed.text(digits)})" if printed else text


def p_text(value: float) -> str:
    """Format a p-value; NaN, for a test that is not possible, becomes a dash."""
    if math.isnan(value):
        return "–"
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a Markdown table with aligned columns, which is readable as plain text."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    padded = (map(str.ljust, line, widths) for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in padded)


def _accuracy_section(data: str, results: Results) -> str:
    rates, usual = results.distinct("rate"), _usual(results)
    entries = _entries(results.over_rates(), max, usual)
    rows = [[label(method), *by_rate.values()] for method, by_rate in entries.items()]
    realised = [results.where(rate=rate).summary("realised_rate") for rate in rates]
    if any(share.count for share in realised):
        shares = (f"{100 * share.mean:.1f} %" if share.count else "–" for share in realised)
        rows.append(["wrong labels, realised", *shares])
    meaning = (
        f"Clean test accuracy in per cent, ours (published): mean ± standard deviation (ddof = 1) "
        f"over {_seeds(usual)}, at the epoch chosen on noisy validation data. Bold: our best in "
        "each column."
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
    """The p-values; empty unless PTD-R-V and a baseline have two seeds each."""
    rows, tested = [], False
    for method in (m for m in results.distinct("method") if not METHODS[m].has_parts):
        row = [label(method)]
        for rate in rates:
            p = results.significance(method, rate)
            reference, ours = (
                results.where(method=name, rate=rate).summary("test_accuracy").mean
                for name in (REFERENCE, method)
            )
            tested = tested or not math.isnan(p)
            worse = " ▼" if not math.isnan(p) and reference < ours else ""
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
    meaning = (
        f"Ours (published): mean ± standard deviation (ddof = 1) over {_seeds(usual)}. Bold: our "
        "best in each row. Methods with one matrix do not depend on R. The paper calls the matrix "
        "of Forward Class-dependent, and T(x) of PTD-F and PTD-R, which is the same, PTD."
    )
    title = data if rate is None else f"{data}, {_rate(rate)} noise"
    errors = _entries(results.over_parts("approximation_error"), min, usual, digits=3)
    return "\n".join(
        [
            f"## {title}\n",
            *_preface(results, meaning),
            "Approximation error, the mean of ‖p − T(x)_y‖₁.\n",
            _over_parts(errors) if errors else "Not available: it needs the true noise.\n",
            "Clean test accuracy in per cent.\n",
            _over_parts(_entries(results.over_parts("test_accuracy"), max, usual)),
        ]
    )


def _over_parts(entries: dict[str, dict[Any, str]]) -> str:
    """A table like Tables 7 and 8, R by method."""
    numbers = next(iter(entries.values()))
    rows = [[f"R = {n}", *(by_parts[n] for by_parts in entries.values())] for n in numbers]
    return markdown_table(["", *map(label, entries)], rows)


def _entries(
    means: Means, better: Callable[..., float], usual: int, digits: int = 2
) -> dict[str, dict[Any, str]]:
    """Format `ours (published)`, with our best at each rate or R in bold.

    Methods without any mean of ours are left out.
    """
    best: dict[Any, float] = {}
    for by in means.values():
        best |= {at: better(best.get(at, o.mean), o.mean) for at, (o, _) in by.items() if o.count}
    return {
        method: {
            at: beside(ours, printed, usual=usual, best=ours.mean == best.get(at), digits=digits)
            for at, (ours, printed) in by.items()
        }
        for method, by in means.items()
        if any(ours.count for ours, _ in by.values())
    }


def _preface(results: Results, meaning: str) -> list[str]:
    lines = [f"{results.about()}\n", f"{meaning}\n"]
    if mixed := results.mixed():
        lines.append(f"Cells differ in their settings: {'; '.join(mixed)}.\n")
    if any(not METHODS[method].published for method in results.distinct("method")):
        lines.append("† not in the paper.\n")
    return lines


def _usual(results: Results) -> int:
    """The most common number of seeds; the largest of several."""
    cells = (result.cell for result in results)
    counts = Counter(Counter((c.rate, c.method, c.n_parts) for c in cells).values())
    return max(counts, key=lambda count: (counts[count], count))


def _rate(rate: float | None) -> str:
    return "real noise" if rate is None else f"{rate:g} %"


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"
