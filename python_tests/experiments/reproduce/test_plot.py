"""The tables as plots."""

import pytest
from experiments.reproduce.table_cases import result, small_ablation

from ptd_ext.engine.methods.registry import METHODS, Method
from ptd_ext.experiments.reproduce import plot
from ptd_ext.experiments.reproduce.published import accuracy
from ptd_ext.experiments.reproduce.results import Results

pytest.importorskip("matplotlib")


def lines_of(axes):
    return {line.get_linestyle() for line in axes.get_lines() if len(line.get_xdata()) > 1}


def test_curves_show_ours_solid_and_published_dashed():
    some = [
        result("mnist", r, m, s, 90.0) for r in (10, 50) for m in ("CE", "PTD-F") for s in (0, 1)
    ]
    figure = plot.accuracy_figure(Results(some))
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == (
        "without a transition matrix",
        "part-dependent",
    )
    assert {"-", "--"} <= lines_of(first)
    dashed = next(line for line in first.get_lines() if line.get_linestyle() == "--")
    assert list(dashed.get_xdata()) == [10, 50]
    assert list(dashed.get_ydata()) == [accuracy("mnist", "CE", rate).mean for rate in (10, 50)]
    assert plot.png(figure).startswith(b"\x89PNG")


def test_a_single_rate_is_drawn_as_dots():
    some = [result("clothing1m", None, m, 0, 70.0) for m in ("CE", "Forward-band")]
    (axes,) = plot.accuracy_figure(Results(some)).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["CE", "Forward-band †"]
    published = [line for line in axes.get_lines() if line.get_marker() == "D"]
    assert [list(line.get_xdata()) for line in published] == [[68.88]]


def test_the_ablation_is_drawn_as_errors_and_accuracies():
    figure = plot.ablation_figure(small_ablation())
    left, right = figure.axes
    assert (left.get_ylabel(), right.get_ylabel()) == (
        "approximation error",
        "clean test accuracy, %",
    )
    dashed = [line for line in left.get_lines() if line.get_linestyle() == "--"]
    assert [0.840, 0.841] in [list(line.get_ydata()) for line in dashed]
    assert plot.png(figure).startswith(b"\x89PNG")


def styles(axes):
    return [
        (line.get_color(), line.get_marker())
        for line, _, _ in (bar.lines for bar in axes.containers)
    ]


@pytest.mark.parametrize("count", [1, 8, 40])
def test_methods_of_a_family_never_look_alike(monkeypatch, count):
    names = [f"new {number}" for number in range(count)]
    for name in names:
        monkeypatch.setitem(METHODS, name, Method(list, ablation=True))
    family = [name for name, method in METHODS.items() if method.kind == "none"]
    assert len(family) >= 7 + count
    some = [result("mnist", rate, m, 0, 90.0) for rate in (10, 50) for m in family]
    (axes,) = plot.accuracy_figure(Results(some)).axes
    assert len(set(styles(axes))) == len(family)


def test_a_method_keeps_its_colour_whatever_other_methods_have_results():
    def style(*methods):
        some = [result("mnist", rate, m, 0, 90.0) for rate in (10, 50) for m in methods]
        return styles(plot.accuracy_figure(Results(some)).axes[0])[-1]

    assert style("DMI") == style("CE", "Joint", "DMI")
