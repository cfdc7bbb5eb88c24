"""The tables as Markdown."""

import math

from experiments.reproduce.table_cases import result, small_ablation, small_table

from ptd_ext.experiments.reproduce.results import Results
from ptd_ext.experiments.reproduce.statistics import Summary
from ptd_ext.experiments.reproduce.tables import (
    ablation_markdown,
    accuracy_markdown,
    beside,
    markdown_table,
    p_text,
)

# p of CE at 50 %: t = (72 − 51) / √((8 + 2) / 2) = 9.391, p = 1 − t / √(2 + t²) = 0.01115;
# of Forward-band: t = −2 / √5, p = 1 − 0.8944 / √2.8 = 0.46548.
MARKDOWN = """\
## fashion_mnist

preset fast · network lenet5 · 60,000 training samples · ptd_ext 0.1.0 · torch 2.13

Clean test accuracy in per cent, ours (published): mean ± standard deviation (ddof = 1) over \
2 seeds, at the epoch chosen on noisy validation data. Bold: our best in each column.

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


def test_cells_that_were_run_differently_are_reported():
    alike = {"epochs": 10, "threads": 1}
    results = Results(
        [
            result("mnist", 10, "CE", 0, 98.0, config=alike),
            result("mnist", 20, "CE", 0, 97.0, config={"epochs": 10, "threads": 2}),
            result("mnist", 20, "PTD-F", 0, 97.0, config={**alike, "n_parts": 20}),
        ]
    )
    assert "Cells differ" not in accuracy_markdown(results)
    results.append(result("mnist", 30, "PTD-F", 0, 96.0, config={"n_parts": 10}, version="0.2.0"))
    text = accuracy_markdown(results)
    assert "settings: epochs is 10 and the default; n_parts is 20 and 10.\n" in text
    assert "ptd_ext 0.1.0 and 0.2.0" in text


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
    assert "Not available: it needs the true noise.\n" in text
    assert "| R = 10 | **90.00** |" in text


def test_columns_line_up():
    assert markdown_table(["a", "bcd"], [["xy", ""], ["z", "± 1"]]) == (
        "| a  | bcd |\n| -- | --- |\n| xy |     |\n| z  | ± 1 |\n"
    )


def test_small_p_values_are_not_zero():
    assert [p_text(p) for p in (0.04567, 1e-9, math.nan)] == ["0.0457", "< 0.0001", "–"]


def test_our_mean_beside_the_published_one():
    ours, printed = Summary(70.0, 1.0, 2), Summary(60.0)
    assert beside(ours, printed, usual=2, best=True) == "**70.00 ± 1.00** (60.00)"
    assert beside(ours, None, usual=5, digits=1) == "70.0 ± 1.0 n = 2"
    assert beside(Summary(), printed, usual=5) == "– (60.00)"
