"""The cells of a table: one method on one data set, at one noise rate, with one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptd_ext.engine.methods.registry import METHODS, Method
from ptd_ext.experiments.datasets.registry import DATA_SETS
from ptd_ext.experiments.settings import ExperimentSettings

Group = tuple[str, float | None, int]  # data set, noise rate and seed

_REAL = "real"  # the folder, in place of a rate, where labels are noisy from the start


@dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        data: the name of the data set.
        rate: the noise rate in per cent; None if the labels are noisy from the start.
        method: the name of the method.
        seed: the random seed.
        n_parts: the number of parts R in an ablation; None in an accuracy table.
    """

    data: str
    rate: float | None
    method: str
    seed: int
    n_parts: int | None = None

    @property
    def entry(self) -> Method:
        """The method's entry in the registry."""
        return METHODS[self.method]

    @property
    def group(self) -> Group | None:
        """The cells with the same warmed-up network; None if the method does not warm up."""
        return (self.data, self.rate, self.seed) if self.entry.kind != "none" else None

    def folder(self, table: Path) -> Path:
        """The folder of the run."""
        rate = _REAL if self.rate is None else f"{self.rate:g}"
        parts = [] if self.n_parts is None else [f"parts-{self.n_parts}"]
        return table.joinpath(self.data, rate, self.method, *parts, str(self.seed))

    @classmethod
    def of_folder(cls, folder: Path) -> Cell:
        """The cell of a folder, the inverse of :meth:`folder`."""
        *_, data, rate, method, seed = folder.parts
        n_parts = None
        if method.startswith("parts-"):
            n_parts = int(method.removeprefix("parts-"))
            data, rate, method = folder.parts[-5:-2]
        return cls(data, None if rate == _REAL else float(rate), method, int(seed), n_parts)

    def config(self, shared: dict[str, Any]) -> dict[str, Any]:
        """The settings for `ptd-ext train`: those that all cells share, and those of the cell."""
        config = {**shared, "dataset": self.data, "method": self.method, "seed": self.seed}
        config |= {"noise": "none"} if self.rate is None else {"rate": self.rate / 100}
        if self.n_parts is not None:
            config["n_parts"] = self.n_parts
        elif not self.entry.has_parts:
            config.pop("n_parts", None)
        return config

    def __str__(self) -> str:
        rate = "" if self.rate is None else f" {self.rate:g} %"
        parts = "" if self.n_parts is None else f" R = {self.n_parts}"
        return f"{self.data}{rate} {self.method}{parts} seed {self.seed}"


def table_sizes() -> dict[str, int]:
    """The number of training samples of each data set that has a table."""
    return {name: entry.table_size for name, entry in DATA_SETS.items() if entry.table_size}


def grid(
    data: str,
    rates: Sequence[float | None],
    methods: Sequence[str],
    seeds: Sequence[int],
    parts: Sequence[int | None] = (None,),
) -> list[Cell]:
    """Return all cells in the order of the table; only methods with parts vary in `parts`."""
    return [
        Cell(data, rate, method, seed, number)
        for rate in rates
        for method in methods
        for number in (parts if METHODS[method].has_parts else (None,))
        for seed in seeds
    ]


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """List differences such as "epochs = 5 (now 10)" in the settings that change the result.

    Paths and settings of the section "run" may differ, so that tables and data can be moved.
    """
    found = []
    for name in sorted({*before, *now}):
        old, new = (
            list(value) if isinstance(value, tuple) else value
            for value in (before.get(name), now.get(name))
        )
        if old != new and not only_where(name):
            was, is_now = ("its default" if value is None else value for value in (old, new))
            found.append(f"{name} = {was} (now {is_now})")
    return found


def label(method: str) -> str:
    """The name of a method in a table, with a mark if it is not in the paper."""
    return method if METHODS[method].published else f"{method} †"


def only_where(name: str) -> bool:
    """True if a setting changes where or how a run is executed, but not its result."""
    entry = ExperimentSettings.entries().get(name)  # None: a setting of another version
    return name == "data" or (entry is not None and entry.section == "run")
