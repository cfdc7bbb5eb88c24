"""The numbers that the paper prints."""

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.experiments.reproduce import published
from ptd_ext.experiments.reproduce.statistics import Summary

SYNTHETIC = ("mnist", "fashion_mnist", "svhn", "cifar10", "news")
BASELINES = [m for m, t in METHODS.items() if t.published and not t.has_parts]


def test_published_accuracies_are_the_papers():
    assert published.accuracy("fashion_mnist", "CE", 10) == Summary(88.54, 0.31)
    assert published.accuracy("fashion_mnist", "PTD-R-V", 50) == Summary(75.96, 1.38)
    assert published.accuracy("cifar10", "Joint", 50) == Summary(44.72, 7.72)
    assert published.accuracy("clothing1m", "PTD-R-V", None) == Summary(71.67)


def test_every_cell_of_the_papers_tables_is_there():
    for method in (name for name, m in METHODS.items() if m.published):
        assert published.accuracy("clothing1m", method, None)
        for data in SYNTHETIC:
            for rate in (10, 20, 30, 40, 50):
                assert published.accuracy(data, method, rate)
                tested = published.significance(data, method, rate)
                assert (tested is not None) == (method in BASELINES)


def test_what_the_paper_does_not_have_is_missing():
    assert published.accuracy("fashion_mnist", "Forward-band", 50) is None
    assert published.accuracy("fashion_mnist", "CE", 45) is None
    assert published.accuracy("digits", "CE", 50) is None
    assert published.ablation("test_accuracy", "cifar10", "PTD-F", 40, 10) is None
    assert published.ablation("test_accuracy", "mnist", "PTD-F", 50, 10) is None


def test_published_p_values_are_the_papers():
    assert published.significance("fashion_mnist", "T-Revision", 10) == 0.9522
    assert published.significance("news", "T-Revision", 50) == 0.0285


def test_published_ablation_under_the_names_of_methods():
    def error(method, parts):
        return published.ablation("approximation_error", "cifar10", method, 50, parts)

    assert error("Forward", 13) == Summary(0.945, 0.051)
    assert error("PTD-F", 14) == error("PTD-R", 14) == Summary(0.821, 0.040)
    assert error("PTD-R-V", 20) == Summary(0.800, 0.015)
    assert error("Forward-band", 10) is None
    assert published.ablation("test_accuracy", "cifar10", "PTD-F-V", 50, 12) == Summary(48.62, 3.05)
