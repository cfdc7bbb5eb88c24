"""The numbers of the paper's tables."""

from __future__ import annotations

import csv
import functools
import math
from importlib import resources

from ptd_ext.experiments.reproduce.statistics import Summary

# The rows of Table 7 for these methods. PTD-F and PTD-R have the same T(x).
_ERROR_ROWS = {"Forward": "Class-dependent", "PTD-F": "PTD", "PTD-R": "PTD"}


def accuracy(data: str, method: str, rate: float | None) -> Summary | None:
    """Test accuracy in per cent (Tables 1 to 5, and MNIST in the appendix), if published."""
    return _read("accuracy.csv").get((data, method, _rate(rate)))


def significance(data: str, method: str, rate: float | None) -> float | None:
    """The p-value of PTD-R-V against a baseline (appendix D), if published."""
    found = _read("significance.csv").get((data, method, _rate(rate)))
    return found.mean if found else None


def ablation(
    measure: str, data: str, method: str, rate: float | None, n_parts: int
) -> Summary | None:
    """A "test_accuracy" or "approximation_error" of Tables 7 and 8: CIFAR-10 at 50 % noise."""
    if (data, rate) != ("cifar10", 50):
        return None
    if measure == "approximation_error":
        method = _ERROR_ROWS.get(method, method)
    return _read("ablation.csv").get((measure, method, str(n_parts)))


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:g}"


@functools.cache
def _read(name: str) -> dict[tuple[str, ...], Summary]:
    """The numbers of a file by the three columns before them."""
    file = resources.files("ptd_ext.experiments.reproduce") / "published" / name
    found = {}
    for row in csv.reader(file.read_text(encoding="utf-8").splitlines()[1:]):
        mean, std = (float(number) if number else math.nan for number in [*row[3:], ""][:2])
        found[tuple(row[:3])] = Summary(mean, std)
    return found
