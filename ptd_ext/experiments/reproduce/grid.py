"""A cell of a table: one method on one data set, at one noise rate, with one seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptd_ext.train.config.settings import describe
from ptd_ext.train.methods.registry import METHODS, Method

__all__ = [
    "DATA_SETS",
    "Cell",
    "ablation_grid",
    "accuracy_grid",
    "differences",
    "label",
    "only_where",
]


# Training samples of each data set; digits is small and comes with scikit-learn, for trials.
DATA_SETS = {
    "mnist": 60_000,
    "fashion_mnist": 60_000,
    "svhn": 73_257,
    "cifar10": 50_000,
    "news": 13_997,
    "clothing1m": 1_000_000,
    "digits": 1_437,
}

_REAL = "real"  # the folder of noise that nobody made, in place of a rate


@dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        data: the data set.
        rate: of the noise in per cent; None where the labels have noise of their own.
        method: by its name in the tables.
        seed: of everything random.
        parts: R, where the table varies it.
    """

    data: str
    rate: float | None
    method: str
    seed: int
    parts: int | None = None

    @property
    def entry(self) -> Method:
        """The method's entry in the registry."""
        return METHODS[self.method]

    @property
    def group(self) -> tuple[str, float | None, int]:
        """Cells of a group that warm up share the warmed-up network."""
        return self.data, self.rate, self.seed

    def folder(self, table: Path) -> Path:
        """The folder that the run writes to."""
        rate = _REAL if self.rate is None else f"{self.rate:g}"
        folder = table / self.data / rate / self.method
        if self.parts is not None:
            folder /= f"parts-{self.parts}"
        return folder / str(self.seed)

    @classmethod
    def of_folder(cls, folder: Path) -> Cell:
        """The cell of a folder that :meth:`folder` names."""
        *_, data, rate, method, seed = folder.parts
        parts = None
        if method.startswith("parts-"):
            *_, data, rate, method, number, seed = folder.parts
            parts = int(number.removeprefix("parts-"))
        return cls(data, None if rate == _REAL else float(rate), method, int(seed), parts)

    def config(self, shared: dict[str, Any]) -> dict[str, Any]:
        """The configuration for `ptd-ext train`: what all cells share, then the cell's own."""
        own: dict[str, Any] = {"dataset": self.data, "method": self.method, "seed": self.seed}
        if self.rate is None:
            own["noise"] = "none"
        else:
            own["rate"] = self.rate / 100
        if self.parts is not None:
            own["parts"] = self.parts
        if not self.entry.has_parts:
            shared = {name: value for name, value in shared.items() if name != "parts"}
        return {**shared, **own}

    def __str__(self) -> str:
        rate = "" if self.rate is None else f" {self.rate:g} %"
        parts = "" if self.parts is None else f" R = {self.parts}"
        return f"{self.data}{rate} {self.method}{parts} seed {self.seed}"


def accuracy_grid(
    data: str, rates: Sequence[float | None], methods: Sequence[str], seeds: Sequence[int]
) -> list[Cell]:
    """All cells of an accuracy table, in its order."""
    return [Cell(data, r, m, s) for r in rates for m in methods for s in seeds]


def ablation_grid(
    data: str,
    rates: Sequence[float | None],
    methods: Sequence[str],
    seeds: Sequence[int],
    parts: Sequence[int],
) -> list[Cell]:
    """All cells of the ablation; methods without parts have one per seed, whatever R is."""
    return [
        Cell(data, rate, method, seed, number)
        for rate in rates
        for method in methods
        for number in (parts if METHODS[method].has_parts else (None,))
        for seed in seeds
    ]


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """List differences such as "epochs = 5 (now 10)", for settings that change the result.

    Paths and settings of the section "run" may differ: tables and data sets get moved.
    """
    found = []
    for name in sorted({*before, *now}):
        old, new = _comparable(before.get(name)), _comparable(now.get(name))
        if old != new and not only_where(name):
            found.append(f"{name} = {_shown(old)} (now {_shown(new)})")
    return found


def label(method: str) -> str:
    """A method's name in a table, marked if the paper does not have it."""
    return method if METHODS[method].published else f"{method} †"


def only_where(name: str) -> bool:
    """True if a setting changes only where or how a run happens, not what it computes."""
    if name == "data":
        return True
    try:
        return describe(name)["section"] == "run"
    except KeyError:  # a setting of another version
        return False


def _comparable(value: Any) -> Any:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


def _shown(value: Any) -> str:
    return "its default" if value is None else str(value)
