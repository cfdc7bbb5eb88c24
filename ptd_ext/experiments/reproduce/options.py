"""The command line of `ptd-ext reproduce`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from ptd_ext.train.config.settings import Settings, describe
from ptd_ext.train.methods.registry import ABLATION_METHODS, METHODS
from ptd_ext.train.reproduce.grid import (
    DATA_SETS,
    Cell,
    ablation_grid,
    accuracy_grid,
)
from ptd_ext.utils.threads import check_threads

__all__ = ["cells", "parse", "parser", "shared"]

_DESCRIPTION = """\
Train the methods of the paper's tables on a data set, over noise rates and seeds, and report
means, standard deviations and significance beside the published numbers. Every cell of the table is
a run of `ptd-ext train` in a folder of its own. Stop it when you like: the same command goes on
from there.
"""
_EXAMPLES = """\
examples:
  ptd-ext reproduce fashion_mnist --data ~/data/fashion_mnist
      the whole table: 21 methods, five rates, five seeds, with the fast preset
  ptd-ext reproduce fashion_mnist --rates 50 --methods CE PTD-R-V --seeds 2
      four cells of it; call again with others, and the table grows
  ptd-ext reproduce cifar10 --preset paper --jobs 1 --threads-per-job 8
      the paper's networks and schedules
  ptd-ext reproduce digits --seeds 1 --rates 30 --set epochs=2
      a table to see how it works, with a setting of `ptd-ext train` changed
  ptd-ext reproduce fashion_mnist --report-only
      the table of what is there, running nothing
  ptd-ext reproduce ablation --dataset cifar10 --rates 50 --parts 10-20
      approximation error and accuracy over the number of parts (Figure 2)

written to --out:
  DATA/RATE/METHOD/SEED/   a cell; METHOD/parts-R/SEED in an ablation
  table.md, table.csv, table.png   of all results there; those of the ablation in ablation/
  warm_up/                 networks that methods with a transition matrix share
"""
_RATES = [10.0, 20.0, 30.0, 40.0, 50.0]
_PARTS = list(range(10, 21))
_OWN = (
    *("against", "dataset", "data", "method", "preset", "progress"),
    *("rate", "seed", "threads", "warm_up_cache"),
)


def parser() -> argparse.ArgumentParser:
    """The parser; :func:`parse` checks what it cannot."""
    made = argparse.ArgumentParser(
        prog="ptd-ext reproduce",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whats = [*DATA_SETS, "ablation"]
    made.add_argument("what", choices=whats, metavar="table", help=", ".join(whats))
    made.add_argument(
        "--seeds",
        nargs="+",
        default=["5"],
        metavar="N",
        help="how many (5: 0 to 4), or which: 0 3 7, or 5-9 (5)",
    )
    made.add_argument(
        "--rates",
        nargs="+",
        type=float,
        metavar="RATE",
        help="of the noise, in per cent (10 20 30 40 50; ablation: 50)",
    )
    made.add_argument("--methods", nargs="+", metavar="METHOD", help="; ".join(METHODS))
    presets = describe("preset")["choices"]
    made.add_argument(
        "--preset", choices=presets, default="fast", help="of `ptd-ext train` (%(default)s)"
    )
    made.add_argument("--data", metavar="ROOT", help="folder or file of the data set")
    made.add_argument(
        "--out",
        type=Path,
        default=Path("reproduced"),
        metavar="DIR",
        help="folder of the table (%(default)s)",
    )
    made.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="cells at a time (cores / threads of a job; with GPUs, one each)",
    )
    made.add_argument(
        "--threads-per-job", type=int, default=1, metavar="N", help="of the CPU (%(default)s)"
    )
    made.add_argument(
        "--set",
        nargs="+",
        default=[],
        action="extend",
        metavar="NAME=VALUE",
        help="other settings of `ptd-ext train`; several numbers as 40,80",
    )
    made.add_argument("--report-only", action="store_true", help="make the table of what is there")
    ablation = made.add_argument_group("ablation")
    ablation.add_argument(
        "--dataset", choices=list(DATA_SETS), metavar="NAME", help="any of those above (cifar10)"
    )
    ablation.add_argument(
        "--parts", nargs="+", metavar="R", help="numbers of parts, or ranges (10-20)"
    )
    return made


def parse(made: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse and check the options, with every default filled in."""
    options = made.parse_args(argv)
    ablation = options.what == "ablation"
    if not ablation and (options.parts or options.dataset):
        made.error(
            "--parts and --dataset belong to `ptd-ext reproduce ablation`; "
            "for another R in a table, say --set parts=R."
        )
    options.data_name = (options.dataset or "cifar10") if ablation else options.what
    try:
        options.seeds = _seeds(options.seeds)
        options.parts = _numbers("--parts", options.parts) if options.parts else _PARTS
        options.set = dict(_setting(text) for text in options.set)
        options.rates = _rates(options.rates, options.data_name, ablation)
    except ValueError as error:
        made.error(str(error))
    if ablation and "parts" in options.set:
        made.error("--set parts=… would fix what an ablation varies; say --parts.")
    if min(options.parts) < 1:
        made.error("--parts must be at least 1.")
    options.methods = _unique(options.methods or (ABLATION_METHODS if ablation else METHODS))
    for method in options.methods:
        if method not in METHODS or (ablation and method not in ABLATION_METHODS):
            known = ABLATION_METHODS if ablation else METHODS
            made.error(f"--methods must be of {', '.join(known)}; got {method!r}.")
    options.out = options.out.absolute()
    if options.threads_per_job < 1:
        made.error(f"--threads-per-job must be at least 1; got {options.threads_per_job}.")
    try:
        check_threads("--threads-per-job", options.threads_per_job)
    except ValueError as error:
        made.error(str(error))
    options.gpus = _gpus(str(options.set.get("device", "auto")))
    if options.jobs is None:
        cores = len(os.sched_getaffinity(0))
        options.jobs = len(options.gpus) or max(1, cores // options.threads_per_job)
    if options.jobs < 1:
        made.error(f"--jobs must be at least 1; got {options.jobs}.")
    return options


def cells(options: argparse.Namespace) -> list[Cell]:
    """The cells that the options ask for."""
    grid = options.data_name, options.rates, options.methods, options.seeds
    if options.what == "ablation":
        return ablation_grid(*grid, options.parts)
    return accuracy_grid(*grid)


def shared(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that all cells have."""
    values = {"preset": options.preset, "threads": options.threads_per_job, **options.set}
    values["warm_up_cache"] = str(options.out / "warm_up")
    if options.data:
        values["data"] = str(Path(options.data).expanduser().absolute())
    return values


def _seeds(texts: list[str]) -> list[int]:
    numbers = _numbers("--seeds", texts)
    if len(texts) == 1 and texts[0].isdecimal():
        if numbers[0] < 1:
            raise ValueError("--seeds must be at least 1 seed.")
        return list(range(numbers[0]))
    return numbers


def _numbers(flag: str, texts: list[str]) -> list[int]:
    """Numbers and ranges such as 5-9, each number once."""
    found: list[int] = []
    for text in texts:
        first, dash, last = text.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{flag} takes numbers, or ranges such as 5-9; got {text!r}.")
        found += range(int(first), int(last if dash else first) + 1)
    if not found:
        raise ValueError(f"{flag} {' '.join(texts)} has no number in it.")
    return _unique(found)


def _rates(rates: list[float] | None, data: str, ablation: bool) -> list[float | None]:
    if data == "clothing1m":
        if rates:
            raise ValueError("clothing1m has noise of its own: leave --rates out.")
        return [None]
    for rate in rates or ():
        if not 0 <= rate < 100:
            raise ValueError(f"--rates are in per cent, from 0 to less than 100; got {rate:g}.")
        if 0 < rate < 1:
            raise ValueError(f"--rates are in per cent: say {100 * rate:g} for {rate:g}.")
    return _unique(rates or ([50.0] if ablation else _RATES))


def _setting(text: str) -> tuple[str, Any]:
    """A NAME=VALUE with the value in the setting's type."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set takes NAME=VALUE; got {text!r}.")
    if name in _OWN:
        raise ValueError(f"--set {text}: {name} is for the table to choose; see --help.")
    if name not in Settings.__dataclass_fields__:
        raise ValueError(f"--set {text}: `ptd-ext train` has no setting {name!r}.")
    try:
        return name, _value(describe(name)["type"], value)
    except ValueError:
        raise ValueError(f"--set {text}: {value!r} is no value for {name}.") from None


def _value(kind: Any, text: str) -> Any:
    if get_origin(kind) is tuple:
        return [get_args(kind)[0](item) for item in text.split(",") if item]
    if kind is bool:
        known = {"true": True, "false": False}
        if text.lower() not in known:
            raise ValueError(text)
        return known[text.lower()]
    return kind(text)


def _gpus(device: str) -> list[str]:
    """The GPUs to share out; none where cells run on the CPU or on a device that was chosen."""
    if device not in ("auto", "cuda"):
        return []
    import torch

    if not torch.cuda.is_available():
        return []
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    return names.split(",") if names else [str(n) for n in range(torch.cuda.device_count())]


def _unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
