"""What notebooks and consoles show of results."""

import dataclasses

import numpy as np
import pytest
import torch
from label_issues.report.report_cases import HOSTILE, findings

import ptd_ext
from ptd_ext.label_issues.notebook import findings_html
from ptd_ext.label_issues.rates import Interval, NoiseRate
from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.transition.estimators import ESTIMATORS

N, C = 300, 3


@pytest.fixture(scope="module")
def results():
    """One of each result that users look at."""
    g = torch.Generator().manual_seed(0)
    clean = torch.arange(N) % C
    features = 6 * torch.eye(C, 8)[clean] + torch.randn(N, 8, generator=g)
    noise = ptd_ext.instance_dependent_noise(features, clean, 0.2, random_state=0)
    clean_probs = (8 * torch.eye(C)[clean]).softmax(1)
    inputs = {
        "features": features,
        "noisy_labels": noise.noisy_labels,
        "clean_probs": clean_probs,
        "pred_probs": clean_probs @ (0.7 * torch.eye(C) + 0.1),
        "weights": torch.rand(N, 2, generator=g).softmax(1),
        "noise_rate": 0.2,
    }
    names = np.array(["ant", "bee", HOSTILE], dtype=object)
    model = ptd_ext.PTDClassifier(epochs=2).fit(features.numpy(), names[noise.noisy_labels])
    estimates = {name: estimator(**inputs) for name, estimator in ESTIMATORS.items()}
    learned = estimates["learned parts"]
    return {
        **estimates,
        "summary": learned.summary(),
        "gate": learned.gate,
        "part transition": learned.part_transition(),
        "diagnosis": estimates["part anchors"].diagnose(),
        "anchor ids": ptd_ext.find_anchors(clean_probs),
        "noise": noise,
        "classifier": model,
        "findings": model.label_issues_,
        "noise rate": model.noise_rate_,
        "model": model.model_,
    }


def test_repr_is_one_line(results):
    for name, result in results.items():
        assert "\n" not in repr(result), name
        assert len(repr(result)) < 200, name
    assert repr(findings(8)) == (
        "LabelIssues(8 labels, 4 classes, 6 flagged, noise rate 30.0% (25.0% to 36.0%))"
    )
    assert repr(findings().noise_rate) == "NoiseRate(30.0% (25.0% to 36.0%), 4 classes)"
    assert str(findings().noise_rate) == "30.0% (25.0% to 36.0%)"


def test_estimates_have_a_heat_map(results):
    for name in (*ESTIMATORS, "part transition"):
        shown = results[name]._repr_html_()
        assert shown.count("rgba(43, 116, 201") == C * C, name


def test_classifier_shows_its_findings(results):
    model = results["classifier"]
    shown = model._repr_mimebundle_()["text/html"]
    assert findings_html(model.label_issues_) in shown
    assert "<script>window" not in shown
    unfitted = ptd_ext.PTDClassifier()._repr_mimebundle_()["text/html"]
    assert "labels are probably wrong" not in unfitted


def test_loaded_classifier_shows_its_classes(results, tmp_path):
    results["classifier"].save(tmp_path / "model")
    shown = ptd_ext.PTDClassifier.load(tmp_path / "model")._repr_html_()
    assert "classes &lt;script&gt;window.hacked = 1&lt;/script&gt;, ant, bee</p>" in shown
    assert "<script>window" not in shown


def test_findings_show_the_most_doubtful_rows():
    shown = findings()._repr_html_()
    assert shown.startswith("<p><b>30 of 40 labels are probably wrong")
    assert "<script>" not in shown
    assert "<img src=x" not in shown
    assert shown.count("row 0") == 5
    assert "row 003" not in shown  # not flagged
    assert shown.count("data:image/png") == 1  # of rows 0, 1, 2, 4 and 5
    assert "text number 1 &lt;script&gt;" in shown
    without = dataclasses.replace(findings(), sample=None)._repr_html_()
    assert "data:image/png" not in without


def test_long_texts_and_rows_are_cut():
    shown = findings(1, sample=lambda row: Sample(text="x" * 1000))._repr_html_()
    assert "x" * 79 + "…" in shown
    assert "x" * 80 not in shown
    row = {f"c{k}": "1" for k in range(9)}
    assert "c3: 1, …" in findings(1, sample=lambda _: Sample(row=row))._repr_html_()


def test_rates_of_classes_without_labels_are_unknown():
    nan = float("nan")
    rate = NoiseRate(Interval(0.1, 0.05, 0.2), (Interval(0.1, 0.05, 0.2), Interval(nan, 0, 1)))
    assert rate._repr_html_().count("10.0%") == 2
    assert "unknown" in rate._repr_html_()


def test_findings_are_plotted():
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    found = findings(names=["cat", "a $5 <b>", "dog", "emu"])
    rates, matrix = found.plot()
    assert rates.figure is matrix.figure
    assert [bar.get_width() for bar in rates.patches] == pytest.approx([30] * 4)
    assert [text.get_text() for text in matrix.get_xticklabels()][1] == r"a \$5 <b>"
    assert {text.get_text() for text in matrix.texts} == {"80", "7"}
    again = found.plot(axes=(rates, matrix))
    assert again[0] is rates
    rates.figure.canvas.draw()
    pyplot.close("all")
