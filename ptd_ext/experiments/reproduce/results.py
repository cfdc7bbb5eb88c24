"""The results in a table's folder, and what they have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptd_ext.train.config.toml import read_config
from ptd_ext.train.methods.registry import METHODS
from ptd_ext.train.reproduce.grid import DATA_SETS, Cell, only_where
from ptd_ext.train.reproduce.statistics import Summary, summarise
from ptd_ext.utils.bounded_files import read_json

__all__ = ["Result", "Results", "read_result", "read_results"]


@dataclass(frozen=True)
class Result:
    """One result.json, with what identifies its run.

    Attributes:
        cell: the run.
        values: of the file.
        config: what the run was told (cell.toml).
        settings: what it made of that (settings.toml); empty if the file is missing.
    """

    cell: Cell
    values: dict[str, Any]
    config: dict[str, Any]
    settings: dict[str, Any]

    @property
    def accuracy(self) -> float:
        """The accuracy on clean test data in per cent, at the epoch that validation selects."""
        return float(self.values["test_accuracy"])

    @property
    def error(self) -> float | None:
        """Mean ‖p − T(x)_y‖₁, if the noise is known and the method has a T."""
        return self.values.get("approximation_error")


class Results(list[Result]):
    """Some results; every method keeps the order that it has in the tables."""

    def where(self, **fields: Any) -> Results:
        """The results whose cells have these values."""
        return Results(r for r in self if all(getattr(r.cell, k) == v for k, v in fields.items()))

    def distinct(self, name: str) -> list[Any]:
        """The values of a field of the cells, in order."""
        found = {getattr(result.cell, name) for result in self}
        orders = {"method": list(METHODS), "data": list(DATA_SETS)}
        if name in orders:
            return sorted(found, key=orders[name].index)
        return sorted(found, key=lambda value: -math.inf if value is None else value)

    def accuracy(self) -> Summary:
        """Over the seeds."""
        return summarise([result.accuracy for result in self])

    def error(self) -> Summary:
        """Over the seeds that have one."""
        return summarise([result.error for result in self if result.error is not None])

    def mean(self, name: str) -> float | None:
        """Summarise a number of the result files, over those that have it."""
        values = [v for r in self if (v := r.values.get(name)) is not None]
        return summarise(values).mean if values else None

    def about(self) -> str:
        """A line on what was run: preset, network, samples, versions."""
        size = _several(_size(result) for result in self)
        what = [
            f"preset {_several(_setting(result, 'preset') for result in self)}",
            f"network {_several(_setting(result, 'network') for result in self)}",
            f"{size} training samples",
            f"ptd_ext {_several(result.values.get('version') for result in self)}",
            f"torch {_several(result.values.get('torch') for result in self)}",
        ]
        return " · ".join(what)

    def mixed(self) -> list[str]:
        """Settings in which the cells differ beyond data, rate, method, R and seed."""
        varied = {"dataset", "rate", "noise", "method", "seed"}
        found = []
        for name in sorted({name for r in self for name in r.config} - varied):
            several = _several(
                result.config.get(name, "the default")
                for result in self
                if name != "parts" or (result.cell.entry.has_parts and result.cell.parts is None)
            )
            if " and " in several and not only_where(name):
                found.append(f"{name} is {several}")
        return found


def read_result(folder: Path) -> Result:
    """Read the result of a finished run; raises ValueError if it is missing or damaged."""
    path = folder / "result.json"
    try:
        values = read_json(path)
    except FileNotFoundError:
        raise ValueError(f"{path} was not written") from None
    except ValueError as error:
        raise ValueError(str(error).removesuffix(".")) from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a {type(values).__name__}, not the result of a run")
    accuracy = values.get("test_accuracy")
    if not isinstance(accuracy, (int, float)) or not math.isfinite(accuracy):
        raise ValueError(f"{path} has no test accuracy")
    cell, settings = folder / "cell.toml", folder / "settings.toml"
    return Result(
        Cell.of_folder(folder),
        values,
        read_config(cell) if cell.exists() else {},
        read_config(settings) if settings.exists() else {},
    )


def read_results(table: Path) -> tuple[Results, list[str]]:
    """All results in a table's folder, the ablation's too, and what was wrong with others."""
    results, problems = Results(), []
    for data in DATA_SETS:
        folder = table / data
        for path in (*folder.glob("*/*/*/result.json"), *folder.glob("*/*/parts-*/*/result.json")):
            try:
                results.append(read_result(path.parent))
            except ValueError as error:
                problems.append(f"{error}; left out.")
    results.sort(key=lambda result: _order(result.cell))
    return results, sorted(problems)


def _order(cell: Cell) -> tuple[Any, ...]:
    places = list(DATA_SETS).index(cell.data), list(METHODS).index(cell.method)
    return places[0], cell.rate or 0, places[1], cell.parts or 0, cell.seed


def _setting(result: Result, name: str) -> Any:
    for source in (result.values, result.settings, result.config):
        if source.get(name) is not None:
            return source[name]
    return None


def _size(result: Result) -> str:
    size = result.values.get("train_samples") or result.settings.get("data_limit")
    return f"{size or DATA_SETS[result.cell.data]:,}"


def _several(values: Iterable[Any]) -> str:
    """A value that all share, or all that there are."""
    shown = ("unknown" if value is None else str(value) for value in values)
    return " and ".join(dict.fromkeys(shown))
