"""The reports: Markdown, CSV and plots of given results."""

import csv
import io

import pytest

from ptd_ext.train.reproduce import plot
from ptd_ext.train.reproduce.csv_rows import COLUMNS, ablation_csv, accuracy_csv
from ptd_ext.train.reproduce.formatting import csv_text, duration, markdown_table, p_text
from ptd_ext.train.reproduce.grid import Cell
from ptd_ext.train.reproduce.published import accuracy
from ptd_ext.train.reproduce.results import Result, Results
from ptd_ext.train.reproduce.tables import ablation_markdown, accuracy_markdown


def result(data, rate, method, seed, percent, *, parts=None, error=None, config=None, **values):
    cell = Cell(data, rate, method, seed, parts)
    common = {"preset": "fast", "version": "0.1.0", "torch": "2.13", "network": "lenet5"}
    own = {"test_accuracy": percent, "approximation_error": error, "epochs": 10}
    return Result(cell, {**common, **own, **values}, cell.config(config or {}), {})


def small_table():
    return Results(
        [
            result("fashion_mnist", 10, "CE", 0, 88.0, realised_rate=0.128),
            result("fashion_mnist", 50, "CE", 0, 50.0, realised_rate=0.49),
            result("fashion_mnist", 50, "CE", 1, 52.0, realised_rate=0.51),
            result("fashion_mnist", 50, "Forward-band", 0, 73.0),
            result("fashion_mnist", 50, "Forward-band", 1, 75.0),
            result("fashion_mnist", 50, "PTD-R-V", 0, 70.0, error=0.5),
            result("fashion_mnist", 50, "PTD-R-V", 1, 74.0, error=0.25),
        ]
    )


# p of CE at 50 %: t = (72 − 51) / √((8 + 2) / 2) = 9.391, p = 1 − t / √(2 + t²) = 0.01115;
# of Forward-band: t = −2 / √5, p = 1 − 0.8944 / √2.8 = 0.46548.
MARKDOWN = """\
## fashion_mnist

preset fast · network lenet5 · 60,000 training samples · ptd_ext 0.1.0 · torch 2.13

Clean test accuracy in per cent, ours (published): mean ± standard deviation (ddof = 1) over \
2 seeds, at the epoch chosen on noisy validation data. Bold: our best of a column.

† not in the paper.

| method                 | 10 %                          | 50 %                        |
| ---------------------- | ----------------------------- | --------------------------- |
| CE                     | **88.00** n = 1 (88.54 ± 0.31) | 51.00 ± 1.41 (51.42 ± 0.66) |
| Forward-band †         | –                             | **74.00 ± 1.41**            |
| PTD-R-V                | – (92.01 ± 0.35)              | 72.00 ± 2.83 (75.96 ± 1.38) |
| wrong labels, realised | 12.8 %                        | 50.0 %                      |

p-values, ours (published), of PTD-R-V against each baseline as in appendix D of the paper: \
Student's t-test of two independent samples (equal variances, two-sided) over the seeds, without \
correction for the number of tests. ▼: the baseline has the higher mean. The published values do \
not follow from the published means and deviations.

| PTD-R-V against | 10 %       | 50 %            |
| --------------- | ---------- | --------------- |
| CE              | – (0.0000) | 0.0111 (0.0000) |
| Forward-band †  | –          | 0.4655 ▼        |
"""


def squeezed(text):
    """Without the padding of columns, which is tested by itself."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return ["|---" if line.startswith("| --") else line for line in lines]


def test_accuracy_table():
    assert squeezed(accuracy_markdown(small_table())) == squeezed(MARKDOWN)


def test_a_table_of_real_noise_has_one_column():
    text = accuracy_markdown(Results([result("clothing1m", None, "CE", 0, 68.0)]))
    assert text.endswith(
        "| method | real noise        |\n"
        "| ------ | ----------------- |\n"
        "| CE     | **68.00** (68.88) |\n"
    )
    assert "over 1 seed," in text
    assert "p-values" not in text
    assert "realised" not in text


def test_each_data_set_has_its_section():
    text = accuracy_markdown(
        Results([result("mnist", 10, "CE", 0, 98.0), result("svhn", 10, "CE", 0, 90.0)])
    )
    assert [line for line in text.splitlines() if line.startswith("#")] == ["## mnist", "## svhn"]
    assert "73,257 training samples" in text


def test_cells_that_were_run_differently_are_told():
    alike = {"epochs": 10, "threads": 1}
    results = Results(
        [
            result("mnist", 10, "CE", 0, 98.0, config=alike),
            result("mnist", 20, "CE", 0, 97.0, config={"epochs": 10, "threads": 2}),
            result("mnist", 20, "PTD-F", 0, 97.0, config={**alike, "parts": 20}),
        ]
    )
    assert "Not all cells" not in accuracy_markdown(results)
    results.append(result("mnist", 30, "PTD-F", 0, 96.0, config={"parts": 10}, version="0.2.0"))
    text = accuracy_markdown(results)
    assert "alike: epochs is 10 and the default; parts is 20 and 10.\n" in text
    assert "ptd_ext 0.1.0 and 0.2.0" in text


def test_accuracy_rows():
    rows = list(csv.DictReader(io.StringIO(accuracy_csv(small_table()))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["kind"] for row in rows] == ["cell"] * 7 + ["summary"] * 4
    filled = {name: value for name, value in rows[1].items() if value}
    assert filled == {
        "kind": "cell",
        "data": "fashion_mnist",
        "rate": "50",
        "method": "CE",
        "seed": "0",
        "test_accuracy": "50",
        "realised_rate": "0.49",
        "epochs": "10",
        "preset": "fast",
        "version": "0.1.0",
        "torch": "2.13",
    }
    alone, ce, band, ptd = rows[7:]
    assert (alone["seeds"], alone["test_accuracy_std"], alone["p_value"]) == ("1", "", "")
    assert (ce["seeds"], ce["test_accuracy"], ce["published_accuracy"]) == ("2", "51", "51.42")
    assert float(ce["test_accuracy_std"]) == pytest.approx(2**0.5)
    assert float(ce["p_value"]) == pytest.approx(0.01115, abs=1e-5)
    assert float(band["p_value"]) == pytest.approx(0.46548, abs=1e-5)
    assert band["published_accuracy"] == band["published_p_value"] == ""
    assert (ptd["approximation_error"], ptd["p_value"]) == ("0.375", "")


def small_ablation():
    return Results(
        [
            result("cifar10", 50, "Forward-band", 0, 44.0, error=0.7),
            result("cifar10", 50, "Forward-band", 1, 46.0, error=0.9),
            result("cifar10", 50, "PTD-F", 0, 50.0, parts=10, error=0.75),
            result("cifar10", 50, "PTD-F", 1, 51.0, parts=10, error=0.65),
            result("cifar10", 50, "PTD-F", 0, 40.0, parts=11, error=0.9),
            result("cifar10", 50, "PTD-F", 1, 41.0, parts=11),
        ]
    )


ERRORS = """\
|        | Forward-band †    | PTD-F                           |
| ------ | ----------------- | ------------------------------- |
| R = 10 | 0.800 ± 0.141     | **0.700 ± 0.071** (0.840 ± 0.030) |
| R = 11 | **0.800 ± 0.141** | 0.900 n = 1 (0.841 ± 0.022)     |
"""
ACCURACIES = """\
|        | Forward-band †   | PTD-F                           |
| ------ | ---------------- | ------------------------------- |
| R = 10 | 45.00 ± 1.41     | **50.50 ± 0.71** (46.84 ± 2.34) |
| R = 11 | **45.00 ± 1.41** | 40.50 ± 0.71 (47.22 ± 1.77)     |
"""


def test_ablation_tables():
    text = squeezed(ablation_markdown(small_ablation()))
    assert text[0] == "## cifar10, 50 % noise"
    start = text.index("Approximation error, the mean of ‖p − T(x)_y‖₁.")
    assert text[start + 2 : start + 6] == squeezed(ERRORS)
    start = text.index("Clean test accuracy in per cent.")
    assert text[start + 2 :] == squeezed(ACCURACIES)


def test_ablation_without_known_noise():
    text = ablation_markdown(Results([result("mnist", 30, "PTD-F", 0, 90.0, parts=10)]))
    assert "No run has one: the true noise must be known.\n" in text
    assert "| R = 10 | **90.00** |" in text


def test_ablation_rows():
    rows = list(csv.DictReader(io.StringIO(ablation_csv(small_ablation()))))
    band, ten, eleven = rows[6:]
    assert (band["method"], band["parts"], band["published_error"]) == ("Forward-band", "", "")
    assert (ten["parts"], ten["test_accuracy"], ten["published_accuracy"]) == (
        "10",
        "50.5",
        "46.84",
    )
    assert (eleven["published_error"], eleven["published_error_std"]) == ("0.841", "0.022")
    assert (eleven["approximation_error"], eleven["approximation_error_std"]) == ("0.9", "")


def test_columns_line_up():
    assert markdown_table(["a", "bcd"], [["xy", ""], ["z", "± 1"]]) == (
        "| a  | bcd |\n| -- | --- |\n| xy |     |\n| z  | ± 1 |\n"
    )


def test_numbers_that_are_missing_stay_empty():
    rows = [{"a": 1 / 3, "b": float("nan")}, {"a": None, "b": "x,y"}]
    assert csv_text(["a", "b"], rows) == 'a,b\n0.3333333333,\n,"x,y"\n'


def test_small_p_values_are_not_zero():
    assert [p_text(p) for p in (0.04567, 1e-9, float("nan"))] == ["0.0457", "< 0.0001", "–"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59.4, "59 s"), (59.6, "1 min"), (3599, "1 h 00 min"), (7500, "2 h 05 min"), (2e5, "2 d 7 h")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def lines_of(axes):
    return {line.get_linestyle() for line in axes.get_lines() if len(line.get_xdata()) > 1}


def test_curves_show_ours_solid_and_published_dashed():
    pytest.importorskip("matplotlib")
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
    pytest.importorskip("matplotlib")
    some = [result("clothing1m", None, m, 0, 70.0) for m in ("CE", "Forward-band")]
    (axes,) = plot.accuracy_figure(Results(some)).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["CE", "Forward-band †"]
    published = [line for line in axes.get_lines() if line.get_marker() == "D"]
    assert [list(line.get_xdata()) for line in published] == [[68.88]]


def test_the_ablation_is_drawn_as_errors_and_accuracies():
    pytest.importorskip("matplotlib")
    figure = plot.ablation_figure(small_ablation())
    left, right = figure.axes
    assert (left.get_ylabel(), right.get_ylabel()) == (
        "approximation error",
        "clean test accuracy, %",
    )
    dashed = [line for line in left.get_lines() if line.get_linestyle() == "--"]
    assert [0.840, 0.841] in [list(line.get_ydata()) for line in dashed]
    assert plot.png(figure).startswith(b"\x89PNG")


def test_families_never_share_a_colour():
    for family in plot._FAMILIES.values():
        colours = [plot._STYLE[method]["color"] for method in family]
        assert len(set(colours)) == len(colours)
