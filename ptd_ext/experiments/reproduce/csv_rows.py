"""The rows of table.csv: one per cell, and one per mean over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ptd_ext.experiments.reproduce import published
from ptd_ext.experiments.reproduce.grid import Cell
from ptd_ext.experiments.reproduce.results import Results
from ptd_ext.experiments.reproduce.statistics import Summary
from ptd_ext.utils.csv_files import csv_line

_IDENTITY = ("data", "rate", "method", "n_parts", "seed")
_MEASURES = ("test_accuracy", "approximation_error")
_FIGURES = (
    *("test_accuracy_last", "validation_accuracy", "chosen_epoch"),
    *("realised_rate", "seconds", "epochs"),
)
_VERSIONS = ("preset", "version", "torch")

COLUMNS = (
    *("kind", *_IDENTITY, "seeds"),
    *("test_accuracy", "test_accuracy_std", "published_accuracy", "published_accuracy_std"),
    *("p_value", "published_p_value"),
    *("approximation_error", "approximation_error_std", "published_error", "published_error_std"),
    *(*_FIGURES, *_VERSIONS),
)


def accuracy_csv(results: Results) -> str:
    """Make table.csv of an accuracy table; `rate` is in per cent, `realised_rate` a share."""
    rows = []
    for cell, row in _summaries(results):
        where = cell.data, cell.method, cell.rate
        row |= _means("published_accuracy", published.accuracy(*where))
        if not cell.entry.has_parts:
            row["p_value"] = results.where(data=cell.data).significance(cell.method, cell.rate)
        rows.append({**row, "published_p_value": published.significance(*where)})
    return _csv(results, rows)


def ablation_csv(results: Results) -> str:
    """Make table.csv of an ablation."""
    rows = []
    for cell, row in _summaries(results):
        # The published rows of a method without parts are the same for every R.
        where = cell.data, cell.method, cell.rate, cell.n_parts or 10
        row |= _means("published_accuracy", published.ablation("test_accuracy", *where))
        row |= _means("published_error", published.ablation("approximation_error", *where))
        rows.append(row)
    return _csv(results, rows)


def _summaries(results: Results) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """The means of each group of cells that differ in the seed only."""
    for cell, group in groupby(results, key=lambda result: replace(result.cell, seed=0)):
        some = Results(group)
        row = {"kind": "summary", **vars(cell), "seed": None, "seeds": len(some)}
        for name in _MEASURES:
            row |= _means(name, some.summary(name))
        yield cell, row | {name: some.summary(name).mean for name in _FIGURES}


def _means(name: str, summary: Summary | None) -> dict[str, float]:
    return {name: summary.mean, f"{name}_std": summary.std} if summary else {}


def _csv(results: Results, summaries: Sequence[dict[str, Any]]) -> str:
    """Make CSV; missing values and NaN become empty fields."""
    names = (*_MEASURES, *_FIGURES, *_VERSIONS)
    cells = (
        {"kind": "cell", **vars(result.cell), **{n: result.values.get(n) for n in names}}
        for result in results
    )
    lines = ([_field(row.get(name)) for name in COLUMNS] for row in (*cells, *summaries))
    return "".join(map(csv_line, (COLUMNS, *lines)))


def _field(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.10g}"
    return value
