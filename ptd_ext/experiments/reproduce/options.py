"""The command line of `ptd-ext reproduce`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.experiments.datasets.registry import DATA_SETS
from ptd_ext.experiments.flags import add_flags, flags_given
from ptd_ext.experiments.reproduce.grid import Cell, grid, table_sizes
from ptd_ext.experiments.reproduce.schedule import shard
from ptd_ext.utils.command_parser import CommandParser
from ptd_ext.utils.threads import check_threads

_DESCRIPTION = """\
Train the methods of the paper's tables over noise rates and seeds, and report means, standard
deviations and significance beside the published numbers. Every cell of a table is a run of
`ptd-ext train` in its own folder. If the command is stopped, the same command continues.
"""
_EXAMPLES = """\
examples:
  ptd-ext reproduce fashion_mnist --data ~/data/fashion_mnist
      the full table: every method, five noise rates, five seeds, with the fast preset
  ptd-ext reproduce fashion_mnist --rates 50 --methods CE PTD-R-V --seeds 2
      four cells of it; further calls with other options extend the table
  ptd-ext reproduce cifar10 --preset paper --jobs 1 --threads 8
      the networks and schedules of the paper
  ptd-ext reproduce digits --seeds 1 --rates 30 --epochs 2
      a small trial, with a setting of `ptd-ext train` changed
  ptd-ext reproduce cifar10 --data /shared/data --out /shared/table --shard 2/8
      the second of eight commands that share a folder, such as the tasks of a Slurm array
  ptd-ext reproduce fashion_mnist --report-only
      the table of the results so far, without running anything
  ptd-ext reproduce ablation --dataset cifar10 --rates 50 --n-parts 10-20
      approximation error and accuracy over the number of parts (Figure 2)

files in --out:
  DATA/RATE/METHOD/SEED/         a cell; METHOD/parts-R/SEED in the ablation
  table.md, table.csv, table.png the table of all results in the folder; ablation/ for the ablation
  warm_up/                       warmed-up networks, shared by the methods with a transition matrix
"""
_RATES = [10.0, 20.0, 30.0, 40.0, 50.0]
_PARTS = list(range(10, 21))
# Settings that the table chooses, or that have an option of their own here.
_FIXED = (
    *("against", "dataset", "method", "n_parts", "progress", "rate"),
    *("report", "seed", "threads", "warm_up_cache"),
)
_OWN = ("seeds", "rates", "methods", "out", "jobs", "threads", "shard", "report_only", "dataset")


def parser() -> CommandParser:
    """Make the parser; `parse` makes the checks that it cannot."""
    made = CommandParser(
        prog="ptd-ext reproduce",
        usage="ptd-ext reproduce TABLE [options]",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        allow_abbrev=False,
        common=(*_OWN, "data", "preset", "epochs", "device"),
    )
    tables = [*table_sizes(), "ablation"]
    add = made.add_argument
    add("table", choices=tables, metavar="TABLE", help=", ".join(tables))
    text = "number of seeds, counted from 0; or seeds and ranges, such as 0 3 7-9 (default: 5)"
    add("--seeds", nargs="+", default=["5"], metavar="N", help=text)
    text = "noise rates in per cent (default: 10 20 30 40 50; for the ablation 50)"
    add("--rates", nargs="+", type=float, metavar="RATE", help=text)
    text = f"methods (default: all; for the ablation, those it studies): {', '.join(METHODS)}"
    add("--methods", nargs="+", metavar="METHOD", help=text)
    text = "folder of the table (default: %(default)s)"
    add("--out", type=Path, default=Path("reproduced"), metavar="DIR", help=text)
    text = "number of cells that run at a time (default: one per GPU, else CPU cores / --threads)"
    add("--jobs", type=int, metavar="N", help=text)
    add("--threads", type=int, default=1, metavar="N", help="CPU threads per cell (default: 1)")
    text = "part I of N of the cells, I from 1 to N; the N commands share --out (default: 1/1)"
    add("--shard", type=_shard, default=(1, 1), metavar="I/N", help=text)
    text = "write the table of the results so far, without training"
    add("--report-only", action="store_true", help=text)
    text = (
        "number of parts (default: that of the data set); for the ablation several numbers and "
        "ranges (default: 10-20)"
    )
    add("--n-parts", nargs="+", metavar="R", help=text)
    text = "data set of the ablation (default: cifar10)"
    add("--dataset", choices=list(table_sizes()), help=text)
    add_flags(made, without=_FIXED)
    return made


def parse(made: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse and check the options, and fill in every default."""
    options = made.parse_args(argv)
    try:
        _complete(options)
    except ValueError as error:
        made.error(str(error))
    return options


def cells(options: argparse.Namespace) -> list[Cell]:
    """Return the cells of the table, or of one shard of it."""
    parts = options.n_parts if options.ablation else (None,)
    found = grid(options.data_name, options.rates, options.methods, options.seeds, parts)
    return shard(found, *options.shard)


def shared(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that all cells have in common."""
    values = {"preset": "fast", **flags_given(options), "threads": options.threads}
    del values["dataset"], values["n_parts"]
    if options.n_parts and not options.ablation:
        values["n_parts"] = options.n_parts[0]
    values["warm_up_cache"] = str(options.out / "warm_up")
    for name in ("data", "noise_file", "labels_file", "network_weights", "word_vectors"):
        if values.get(name):
            values[name] = str(Path(values[name]).expanduser().absolute())
    return values


def _complete(options: argparse.Namespace) -> None:
    """Check the options and fill in the defaults that depend on others."""
    options.ablation = options.table == "ablation"
    if options.dataset and not options.ablation:
        raise ValueError("--dataset applies to `ptd-ext reproduce ablation` only.")
    options.data_name = (options.dataset or "cifar10") if options.ablation else options.table
    options.seeds = _seeds(options.seeds)
    options.rates = _rates(options.rates, options.data_name, options.ablation)
    options.n_parts = _n_parts(options.n_parts, options.ablation)
    known = [name for name, entry in METHODS.items() if entry.ablation or not options.ablation]
    options.methods = _unique(options.methods or known)
    for method in options.methods:
        if method not in known:
            raise ValueError(f"--methods must be one of {', '.join(known)}; got {method!r}.")
    options.out = options.out.expanduser().absolute()
    if options.threads < 1:
        raise ValueError(f"--threads must be at least 1; got {options.threads}.")
    check_threads("--threads", options.threads)
    options.gpus = _gpus(getattr(options, "device", "auto"))
    if options.jobs is None:
        cores = len(os.sched_getaffinity(0))
        options.jobs = len(options.gpus) or max(1, cores // options.threads)
    if options.jobs < 1:
        raise ValueError(f"--jobs must be at least 1; got {options.jobs}.")


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    index, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= index <= count:
        raise argparse.ArgumentTypeError(f"must be I/N with 1 ≤ I ≤ N, such as 2/8; got {text!r}.")
    return index, count


def _seeds(given: list[str]) -> list[int]:
    numbers = _numbers("--seeds", given)
    if len(given) > 1 or not given[0].isdecimal():
        return numbers
    if numbers[0] < 1:
        raise ValueError("--seeds must be at least 1; got 0.")
    return list(range(numbers[0]))


def _n_parts(given: list[str] | None, ablation: bool) -> list[int] | None:
    if given is None:
        return _PARTS if ablation else None
    numbers = _numbers("--n-parts", given)
    if not ablation and len(numbers) > 1:
        raise ValueError(
            "--n-parts must be one number; `ptd-ext reproduce ablation` compares several."
        )
    return numbers


def _numbers(flag: str, given: list[str]) -> list[int]:
    """Parse numbers and ranges such as 5-9; each number occurs once in the result."""
    found: list[int] = []
    for text in given:
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", text)
        if match is None:
            raise ValueError(f"{flag} must be numbers, or ranges such as 5-9; got {text!r}.")
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1)
        if not numbers:
            raise ValueError(f"{flag} must be ascending ranges, such as 5-9; got {text!r}.")
        found += numbers
    return _unique(found)


def _rates(rates: list[float] | None, data: str, ablation: bool) -> list[float | None]:
    if DATA_SETS[data].own_noise:
        if rates:
            raise ValueError(f"--rates cannot be set for {data}, whose labels are noisy.")
        return [None]
    for rate in rates or ():
        if not 0 <= rate < 100:
            raise ValueError(f"--rates must be in per cent, from 0 to below 100; got {rate:g}.")
        if 0 < rate < 1:
            raise ValueError(f"--rates must be in per cent: {100 * rate:g} instead of {rate:g}.")
    return _unique(rates or ([50.0] if ablation else _RATES))


def _gpus(device: str) -> list[str]:
    """Return the GPUs to distribute over the jobs; none if --device names the CPU or one GPU."""
    if device not in ("auto", "cuda") or not torch.cuda.is_available():
        return []
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    return names.split(",") if names else [str(n) for n in range(torch.cuda.device_count())]


def _unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
