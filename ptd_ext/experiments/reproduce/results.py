"""Reads the results in the folder of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.experiments.reproduce import published
from ptd_ext.experiments.reproduce.grid import Cell, differences, only_where, table_sizes
from ptd_ext.experiments.reproduce.statistics import Summary, p_value, summarise
from ptd_ext.experiments.run.experiment_folder import read_result as run_result
from ptd_ext.experiments.toml import read_config

REFERENCE = "PTD-R-V"  # the method that the paper compares with each baseline

# By method, then by noise rate or R: our mean, and the published one if there is one.
Means = dict[str, dict[Any, tuple[Summary, Summary | None]]]


class OtherSettingsError(ValueError):
    """A cell was run with other settings than those that are asked for now."""


@dataclass(frozen=True)
class Result:
    """The result of one cell.

    Attributes:
        cell: the cell.
        values: the values of result.json.
        config: the settings given to the run (cell.toml).
    """

    cell: Cell
    values: dict[str, Any]
    config: dict[str, Any]


class Results(list[Result]):
    """A list of results."""

    def where(self, **fields: Any) -> Results:
        """The results whose cells have these values."""
        return Results(r for r in self if all(getattr(r.cell, k) == v for k, v in fields.items()))

    def distinct(self, name: str) -> list[Any]:
        """The values of a field of the cells, in the order of the tables."""
        found = {getattr(result.cell, name) for result in self}
        orders = {"method": list(METHODS), "data": list(table_sizes())}
        if name in orders:
            return sorted(found, key=orders[name].index)
        return sorted(found, key=lambda value: -math.inf if value is None else value)

    def summary(self, name: str) -> Summary:
        """Mean and deviation of a value of result.json, over the runs that have it."""
        return summarise([v for r in self if (v := r.values.get(name)) is not None])

    def over_rates(self) -> Means:
        """The accuracies by method and noise rate, for the results of one data set."""
        data, rates = self[0].cell.data, self.distinct("rate")
        return {
            method: {
                rate: (
                    self.where(method=method, rate=rate).summary("test_accuracy"),
                    published.accuracy(data, method, rate),
                )
                for rate in rates
            }
            for method in self.distinct("method")
        }

    def over_parts(self, measure: str) -> Means:
        """A measure by method and R, for the results of one data set and noise rate.

        Methods with one matrix have the same mean for every R.
        """
        data, rate = self[0].cell.data, self[0].cell.rate
        numbers = [number for number in self.distinct("n_parts") if number is not None]
        means: Means = {}
        for method in self.distinct("method"):
            some, has_parts = self.where(method=method), METHODS[method].has_parts
            means[method] = {
                number: (
                    some.where(n_parts=number if has_parts else None).summary(measure),
                    published.ablation(measure, data, method, rate, number),
                )
                for number in numbers
            }
        return means

    def significance(self, method: str, rate: float | None) -> float:
        """The p-value of PTD-R-V against a method, for the results of one data set."""
        first, second = (
            [result.values["test_accuracy"] for result in self.where(method=name, rate=rate)]
            for name in (REFERENCE, method)
        )
        return p_value(first, second)

    def about(self) -> str:
        """One line with preset, network, number of samples and versions."""
        size = _several(
            f"{result.values.get('train_samples') or table_sizes()[result.cell.data]:,}"
            for result in self
        )
        names = ("preset", "network", "version", "torch")
        preset, network, version, torch = (
            _several(result.values.get(name) for result in self) for name in names
        )
        return (
            f"preset {preset} · network {network} · {size} training samples · "
            f"ptd_ext {version} · torch {torch}"
        )

    def mixed(self) -> list[str]:
        """Settings in which the cells differ beyond data, rate, method, R and seed."""
        varied = {"dataset", "rate", "noise", "method", "seed"}
        found = []
        for name in sorted({name for r in self for name in r.config} - varied):
            several = _several(
                result.config.get(name, "the default")
                for result in self
                if name != "n_parts"
                or (result.cell.entry.has_parts and result.cell.n_parts is None)
            )
            if " and " in several and not only_where(name):
                found.append(f"{name} is {several}")
        return found


def read_result(folder: Path) -> Result:
    """Read the result of a finished run; raises ValueError if it is missing or damaged."""
    path = folder / "result.json"
    try:
        values = run_result(path)
    except FileNotFoundError:
        raise ValueError(f"{path} was not written") from None
    except ValueError as error:
        raise ValueError(str(error).removesuffix(".")) from None
    cell = Cell.of_folder(folder)
    if cell.method not in METHODS:
        raise ValueError(f"{path} is the result of {cell.method}, which is not a method")
    config = folder / "cell.toml"
    return Result(cell, values, read_config(config) if config.exists() else {})


def finished_result(folder: Path, config: dict[str, Any]) -> Result | None:
    """Return the result of a finished cell; None if it must be run.

    Raises:
        OtherSettingsError: if the folder holds a run with other settings.
    """
    before = folder / "cell.toml"
    if before.exists() and (found := differences(read_config(before), config)):
        raise OtherSettingsError(f"{folder} was run with {', '.join(found)}.")
    try:
        return read_result(folder)
    except ValueError:
        return None  # a damaged one is reported by the run itself


def read_results(table: Path) -> tuple[Results, list[str]]:
    """Read all results in the folder of a table; returns them and the problems with other files."""
    results, problems = Results(), []
    data, methods = list(table_sizes()), list(METHODS)
    for name in data:
        folder = table / name
        for path in (*folder.glob("*/*/*/result.json"), *folder.glob("*/*/parts-*/*/result.json")):
            try:
                results.append(read_result(path.parent))
            except ValueError as error:
                problems.append(f"{error}; left out.")

    def order(result: Result) -> tuple[float, ...]:
        c = result.cell
        place = data.index(c.data), c.rate or 0, methods.index(c.method)
        return (*place, c.n_parts or 0, c.seed)

    return Results(sorted(results, key=order)), sorted(problems)


def _several(values: Iterable[Any]) -> str:
    """Join the distinct values."""
    shown = ("unknown" if value is None else str(value) for value in values)
    return " and ".join(dict.fromkeys(shown))
