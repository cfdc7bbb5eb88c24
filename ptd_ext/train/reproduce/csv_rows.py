"""The rows of table.csv: one for every cell, one for every mean over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ptd_ext.train.reproduce import published
from ptd_ext.train.reproduce.formatting import csv_text
from ptd_ext.train.reproduce.results import Result, Results
from ptd_ext.train.reproduce.statistics import p_value

__all__ = ["COLUMNS", "REFERENCE", "ablation_csv", "accuracy_csv", "significance_of"]

REFERENCE = "PTD-R-V"  # what the paper tests the baselines against

_IDENTITY = ("data", "rate", "method", "parts", "seed")
_FIGURES = (
    "test_accuracy_last",
    "validation_accuracy",
    "chosen_epoch",
    "realised_rate",
    "seconds",
    "epochs",
)
_VERSIONS = ("preset", "version", "torch")

COLUMNS = (
    "kind",
    *_IDENTITY,
    "seeds",
    "test_accuracy",
    "test_accuracy_std",
    "published_accuracy",
    "published_accuracy_std",
    "p_value",
    "published_p_value",
    "approximation_error",
    "approximation_error_std",
    "published_error",
    "published_error_std",
    *_FIGURES,
    *_VERSIONS,
)


def accuracy_csv(results: Results) -> str:
    """table.csv of an accuracy table; rates are in per cent, realised_rate is a share."""

    def summary(some: Results) -> dict[str, Any]:
        cell = some[0].cell
        return {
            **_printed("accuracy", published.accuracy(cell.data, cell.method, cell.rate)),
            "p_value": significance_of(results, some),
            "published_p_value": published.significance(cell.data, cell.method, cell.rate),
        }

    return _csv(results, summary)


def ablation_csv(results: Results) -> str:
    """table.csv of an ablation."""

    def summary(some: Results) -> dict[str, Any]:
        cell = some[0].cell
        # Methods without parts have the same row for every R.
        where = cell.data, cell.method, cell.rate, 10 if cell.parts is None else cell.parts
        return {
            **_printed("accuracy", published.ablation("accuracy", *where)),
            **_printed("error", published.ablation("approximation_error", *where)),
        }

    return _csv(results, summary)


def significance_of(results: Results, some: Results) -> float | None:
    """The p-value of PTD-R-V against a method's runs; None for methods of the PTD family."""
    cell = some[0].cell
    if cell.entry.has_parts:
        return None
    reference = results.where(data=cell.data, rate=cell.rate, method=REFERENCE)
    return p_value([r.accuracy for r in reference], [r.accuracy for r in some])


def _csv(results: Results, summary: Callable[[Results], dict[str, Any]]) -> str:
    cells = [_cell(result) for result in results]
    return csv_text(COLUMNS, [*cells, *(_summary(s, summary(s)) for s in _over_seeds(results))])


def _over_seeds(results: Results) -> Sequence[Results]:
    groups: dict[tuple[Any, ...], Results] = {}
    for result in results:
        cell = result.cell
        key = cell.data, cell.rate, cell.method, cell.parts
        groups.setdefault(key, Results()).append(result)
    return list(groups.values())


def _cell(result: Result) -> dict[str, Any]:
    values = {name: result.values.get(name) for name in (*_FIGURES, *_VERSIONS)}
    identity = {name: getattr(result.cell, name) for name in _IDENTITY}
    figures = {"test_accuracy": result.accuracy, "approximation_error": result.error}
    return {"kind": "cell", **identity, **figures, **values}


def _summary(some: Results, more: dict[str, Any]) -> dict[str, Any]:
    accuracy, error = some.accuracy(), some.error()
    identity = {name: getattr(some[0].cell, name) for name in _IDENTITY if name != "seed"}
    return {
        "kind": "summary",
        **identity,
        "seeds": accuracy.count,
        "test_accuracy": accuracy.mean,
        "test_accuracy_std": accuracy.std,
        "approximation_error": error.mean,
        "approximation_error_std": error.std,
        **{name: some.mean(name) for name in _FIGURES},
        **more,
    }


def _printed(name: str, printed: published.Printed | None) -> dict[str, float | None]:
    mean, std = printed or (None, None)
    return {f"published_{name}": mean, f"published_{name}_std": std}
