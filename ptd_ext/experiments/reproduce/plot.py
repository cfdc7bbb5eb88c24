"""The tables as pictures."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ptd_ext.train.methods.registry import METHODS
from ptd_ext.train.reproduce import published
from ptd_ext.train.reproduce.grid import label
from ptd_ext.train.reproduce.results import Results
from ptd_ext.train.reproduce.statistics import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawing", "ablation_figure", "accuracy_figure", "png"]

Drawing = Callable[[Results], "Figure"]

# Okabe and Ito's colours, which colour-blind readers can tell apart, but for its yellow, which is
# too light for lines. Markers tell the methods apart as well.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"

# A panel each, so that no more lines share one than there are colours.
_FAMILIES = {
    "without a transition matrix": [m for m, t in METHODS.items() if not t.warms_up],
    "class-dependent": [m for m, t in METHODS.items() if t.warms_up and not t.has_parts],
    "part-dependent": [m for m, t in METHODS.items() if t.has_parts],
}
_STYLE = {
    method: {"color": _COLOURS[place], "marker": _MARKERS[place]}
    for family in _FAMILIES.values()
    for place, method in enumerate(family)
}
_NOTE = "solid: ours, mean ± standard deviation over seeds · dashed: published"


def accuracy_figure(results: Results) -> Figure:
    """Accuracy over the noise rate, a row of panels for every data set."""
    names = results.distinct("data")
    figure = _figure(13, 5.2 * len(names))
    rows = figure.subfigures(len(names), 1, squeeze=False)[:, 0]
    for row, data in zip(rows, names, strict=True):
        some = results.where(data=data)
        if len(some.distinct("rate")) == 1:
            _dots(row, data, some)
        else:
            _curves(row, data, some)
    return figure


def ablation_figure(results: Results) -> Figure:
    """Approximation error and accuracy over R, like Figure 2, a row for every data set and rate."""
    studies = sorted({(r.cell.data, r.cell.rate) for r in results}, key=str)
    figure = _figure(13, 4.6 * len(studies))
    rows = figure.subfigures(len(studies), 1, squeeze=False)[:, 0]
    for row, (data, rate) in zip(rows, studies, strict=True):
        some = results.where(data=data, rate=rate)
        row.suptitle(_title(data, rate) + f"   ({_NOTE})", fontsize=10)
        left, right = row.subplots(1, 2)
        _over_parts(left, some, "approximation_error", Results.error)
        _over_parts(right, some, "accuracy", Results.accuracy)
        left.set_ylabel("approximation error")
        right.set_ylabel("clean test accuracy, %")
        # One legend for both: the panel of errors may lack methods, that of accuracies has all.
        row.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=7)
    return figure


def png(figure: Figure) -> bytes:
    """The picture as a file's bytes."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return data.getvalue()


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'Drawing needs matplotlib: pip install "ptd_ext[plot]"', name="matplotlib"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def _curves(row: Any, data: str, results: Results) -> None:
    """A panel for every family of methods that has results."""
    row.suptitle(f"{data}   ({_NOTE})", fontsize=10)
    present = set(results.distinct("method"))
    families = {n: [m for m in f if m in present] for n, f in _FAMILIES.items()}
    families = {name: family for name, family in families.items() if family}
    rates = results.distinct("rate")
    gap = min(b - a for a, b in itertools.pairwise(rates))
    panels = row.subplots(1, len(families), sharey=True, squeeze=False)[0]
    for panel, (name, family) in zip(panels, families.items(), strict=True):
        for place, method in enumerate(family):
            # Beside each other, so that no error bar hides another.
            shift = gap * 0.03 * (place - (len(family) - 1) / 2)
            ours = {r: results.where(method=method, rate=r).accuracy() for r in rates}
            printed = {r: published.accuracy(data, method, r) for r in rates}
            _line(panel, method, ours, shift)
            _dashed(panel, method, {r: p.mean for r, p in printed.items() if p})
        panel.set_title(name, fontsize=10)
        panel.set_xticks(rates, [f"{rate:g}" for rate in rates])
        panel.set_xlabel("noise rate, %")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    panels[0].set_ylabel("clean test accuracy, %")


def _dots(row: Any, data: str, results: Results) -> None:
    """Methods below each other, for a single rate."""
    (rate,), methods = results.distinct("rate"), results.distinct("method")
    row.suptitle(
        f"{_title(data, rate)}   (filled: ours, mean ± standard deviation over seeds · "
        "hollow: published)",
        fontsize=10,
    )
    axes = row.subplots()
    for place, method in enumerate(methods):
        ours = results.where(method=method).accuracy()
        axes.errorbar(ours.mean, place, xerr=_bar(ours), color=_COLOURS[0], marker="o", capsize=3)
        if printed := published.accuracy(data, method, rate):
            axes.plot(printed.mean, place, "D", markerfacecolor="none", color=_COLOURS[1])
    axes.set_yticks(range(len(methods)), [label(method) for method in methods])
    axes.invert_yaxis()
    axes.set_xlabel("clean test accuracy, %")
    axes.grid(alpha=0.3)


def _over_parts(
    axes: Any, results: Results, measure: str, summary: Callable[[Results], Summary]
) -> None:
    numbers = [parts for parts in results.distinct("parts") if parts is not None]
    for place, method in enumerate(results.distinct("method")):
        ours, printed = {}, {}
        for parts in numbers:
            own = parts if METHODS[method].has_parts else None
            ours[parts] = summary(results.where(method=method, parts=own))
            cell = results[0].cell
            found = published.ablation(measure, cell.data, method, cell.rate, parts)
            printed.update({parts: found.mean} if found else {})
        style = {"color": _COLOURS[place], "marker": _MARKERS[place]}
        _line(axes, method, ours, 0.05 * (place - 3), style)
        _dashed(axes, method, printed, style)
    axes.set_xticks(numbers)
    axes.set_xlabel("number of parts R")
    axes.grid(alpha=0.3)


def _line(
    axes: Any,
    method: str,
    ours: dict[Any, Summary],
    shift: float,
    style: dict[str, str] | None = None,
) -> None:
    points = [(x + shift, s) for x, s in ours.items() if s.count]
    style = style or _STYLE[method]
    if points:
        x, summaries = zip(*points, strict=True)
        means = [summary.mean for summary in summaries]
        bars = [_bar(summary) for summary in summaries]
        axes.errorbar(x, means, yerr=bars, capsize=2, markersize=4, label=label(method), **style)


def _dashed(
    axes: Any, method: str, printed: dict[Any, float], style: dict[str, str] | None = None
) -> None:
    colour = (style or _STYLE[method])["color"]
    # A single point has no line to be dashed; a dash of its own stands for it.
    marker = "_" if len(printed) == 1 else None
    axes.plot(list(printed), list(printed.values()), "--", color=colour, marker=marker, alpha=0.7)


def _bar(summary: Summary) -> float:
    return 0.0 if math.isnan(summary.std) else summary.std


def _title(data: str, rate: float | None) -> str:
    return data if rate is None else f"{data}, {rate:g} % noise"
