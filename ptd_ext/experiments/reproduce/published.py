"""The numbers of the paper's tables, as they are printed there."""

from __future__ import annotations

import csv
import functools
from importlib import resources
from typing import NamedTuple

__all__ = ["Printed", "ablation", "accuracy", "significance"]

# Data sets as the paper writes them.
_NAMES = {
    "mnist": "MNIST",
    "fashion_mnist": "F-MNIST",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "news": "NEWS",
    "clothing1m": "Clothing1M",
}

# Rows of Table 7 that are no method of their own. PTD-F and PTD-R share T(x).
_ERROR_ROWS = {"Forward": "Class-dependent", "PTD-F": "PTD", "PTD-R": "PTD"}


class Printed(NamedTuple):
    """A mean and its standard deviation; the paper gives none for Clothing1M."""

    mean: float
    std: float | None


def accuracy(data: str, method: str, rate: float | None) -> Printed | None:
    """Test accuracy in per cent (Tables 1 to 5, and MNIST in the appendix), if it was published."""
    return _accuracy().get((_NAMES.get(data, ""), method, rate))


def significance(data: str, method: str, rate: float | None) -> float | None:
    """The p-value of PTD-R-V against a baseline (appendix D), if it was published."""
    return _significance().get((_NAMES.get(data, ""), method, rate))


def ablation(
    measure: str, data: str, method: str, rate: float | None, parts: int
) -> Printed | None:
    """An "accuracy" or "approximation_error" of Tables 7 and 8: CIFAR-10 at 50 % noise."""
    if (data, rate) != ("cifar10", 50):
        return None
    if measure == "approximation_error":
        method = _ERROR_ROWS.get(method, method)
    return _ablation().get((measure, method, parts))


def _rows(name: str) -> list[dict[str, str]]:
    file = resources.files("ptd_ext.train.reproduce") / "published" / name
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def _printed(row: dict[str, str]) -> Printed:
    return Printed(float(row["mean"]), float(row["std"]) if row["std"] else None)


def _key(row: dict[str, str]) -> tuple[str, str, float | None]:
    rate = row["noise_rate_percent"]
    return row["dataset"], row["method"], float(rate) if rate else None


@functools.cache
def _accuracy() -> dict[tuple[str, str, float | None], Printed]:
    return {_key(row): _printed(row) for row in _rows("accuracy.csv")}


@functools.cache
def _significance() -> dict[tuple[str, str, float | None], float]:
    return {_key(row): float(row["p_value"]) for row in _rows("significance.csv")}


@functools.cache
def _ablation() -> dict[tuple[str, str, int], Printed]:
    return {
        (row["measure"], row["method"], int(row["parts"])): _printed(row)
        for row in _rows("ablation.csv")
    }
