"""The tables as plots."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.experiments.reproduce.grid import label
from ptd_ext.experiments.reproduce.results import Means, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which colour-blind readers can distinguish, without yellow, which is
# too light for lines. There are as many pairs of colour and marker as 7 × 9, coprime numbers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX<>"

# The title of a panel, by the transition matrix of its methods.
_FAMILIES = {
    "none": "without a transition matrix",
    "one matrix": "class-dependent",
    "parts": "part-dependent",
}
_NOTE = "solid: ours, mean ± standard deviation over seeds · dashed: published"
_ACCURACY = "clean test accuracy, %"


def accuracy_figure(results: Results) -> Figure:
    """Plot accuracy over the noise rate, with a row of panels per data set."""
    names = results.distinct("data")
    figure, rows = _figure(5.2, len(names))
    for row, data in zip(rows, names, strict=True):
        some = results.where(data=data)
        draw = _dots if len(some.distinct("rate")) == 1 else _curves
        draw(row, data, some)
    return figure


def ablation_figure(results: Results) -> Figure:
    """Plot approximation error and accuracy over R, like Figure 2, per data set and rate."""
    studies = sorted({(r.cell.data, r.cell.rate) for r in results}, key=str)
    figure, rows = _figure(4.6, len(studies))
    for row, (data, rate) in zip(rows, studies, strict=True):
        some = results.where(data=data, rate=rate)
        row.suptitle(f"{_title(data, rate)}   ({_NOTE})", fontsize=10)
        panels = row.subplots(1, 2)
        for axes, measure in zip(panels, ("approximation_error", "test_accuracy"), strict=True):
            means = some.over_parts(measure)
            _lines(axes, means, list(means), gap=0.05)
            axes.set_xticks(list(next(iter(means.values()))))
            axes.set_xlabel("number of parts R")
        panels[0].set_ylabel("approximation error")
        panels[1].set_ylabel(_ACCURACY)
        # One legend for both panels: the accuracies include all methods.
        row.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=7)
    return figure


def png(figure: Figure) -> bytes:
    """Render a figure as PNG."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return data.getvalue()


def _figure(height: float, count: int) -> tuple[Figure, Any]:
    """A figure of so many rows, and its rows."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'Drawing needs matplotlib: pip install "ptd_ext[all]"', name="matplotlib"
        ) from None
    figure = Figure(figsize=(13, height * count), layout="constrained")
    return figure, figure.subfigures(count, 1, squeeze=False)[:, 0]


def _curves(row: Any, data: str, results: Results) -> None:
    """One panel per family of methods."""
    row.suptitle(f"{data}   ({_NOTE})", fontsize=10)
    means, rates = results.over_rates(), results.distinct("rate")
    kinds = [kind for kind in _FAMILIES if any(METHODS[method].kind == kind for method in means)]
    gap = 0.03 * min(b - a for a, b in itertools.pairwise(rates))
    panels = row.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for panel, kind in zip(panels, kinds, strict=True):
        # A colour belongs to a method, whichever methods have results.
        _lines(panel, means, [name for name in METHODS if METHODS[name].kind == kind], gap)
        panel.set_title(_FAMILIES[kind], fontsize=10)
        panel.set_xticks(rates, [f"{rate:g}" for rate in rates])
        panel.set_xlabel("noise rate, %")
        panel.legend(fontsize=8)
    panels[0].set_ylabel(_ACCURACY)


def _dots(row: Any, data: str, results: Results) -> None:
    """One panel with a line per method, for a single rate."""
    (rate,), means = results.distinct("rate"), results.over_rates()
    row.suptitle(
        f"{_title(data, rate)}   (filled: ours, mean ± standard deviation over seeds · "
        "hollow: published)",
        fontsize=10,
    )
    axes = row.subplots()
    for place, by_rate in enumerate(means.values()):
        ours, printed = by_rate[rate]
        bar = np.nan_to_num(ours.std)
        axes.errorbar(ours.mean, place, xerr=bar, color=_COLOURS[0], marker="o", capsize=3)
        if printed:
            axes.plot(printed.mean, place, "D", markerfacecolor="none", color=_COLOURS[1])
    axes.set_yticks(range(len(means)), list(map(label, means)))
    axes.invert_yaxis()
    axes.set_xlabel(_ACCURACY)
    axes.grid(alpha=0.3)


def _lines(axes: Any, means: Means, family: Sequence[str], gap: float) -> None:
    """Plot the methods of a family that have means, our solid and published dashed lines."""
    for place, method in enumerate(family):
        points = means.get(method, {}).items()
        colour, marker = _COLOURS[place % len(_COLOURS)], _MARKERS[place % len(_MARKERS)]
        # Side by side, so that no error bar hides another.
        shift = gap * (place - (len(family) - 1) / 2)
        if ours := [(x + shift, s.mean, np.nan_to_num(s.std)) for x, (s, _) in points if s.count]:
            x, y, bars = zip(*ours, strict=True)
            style = {"color": colour, "marker": marker, "label": label(method)}
            axes.errorbar(x, y, yerr=bars, capsize=2, markersize=4, **style)
        if printed := [(x, p.mean) for x, (_, p) in points if p]:
            # A single point has no line to be dashed; a dash as its marker stands for it.
            dash = "_" if len(printed) == 1 else None
            axes.plot(*zip(*printed, strict=True), "--", color=colour, marker=dash, alpha=0.7)
    axes.grid(alpha=0.3)


def _title(data: str, rate: float | None) -> str:
    return data if rate is None else f"{data}, {rate:g} % noise"
