"""`ptd-ext compare`: several methods on the same noisy data, over several seeds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ptd_ext.cli.errors import report_errors
from ptd_ext.engine.methods.registry import stages_of
from ptd_ext.engine.training.placement import Placement
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.flags import COMMON, add_flags, flags_given
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.reproduce.statistics import summarise
from ptd_ext.experiments.run.candidates import candidate_settings
from ptd_ext.experiments.run.experiment import train
from ptd_ext.experiments.run.experiment_folder import result_name
from ptd_ext.experiments.toml import read_config
from ptd_ext.utils.command_parser import CommandParser

DESCRIPTION = """\
Train several methods on the same noisy data and print their accuracy on clean test data, as mean ±
standard deviation over seeds. To compare your own network, give --network module:factory; to
compare your own method, add it to ptd_ext.engine.methods.registry.METHODS."""

EXAMPLES = """\
examples:
  ptd-ext compare
  ptd-ext compare --methods CE Forward-band PTD-F --dataset fashion_mnist --rate 0.5 --seeds 5
  ptd-ext compare --config mine.toml --out runs/mine

Every run is in OUT/METHOD/SEED, with the files of `ptd-ext train`. If the command is stopped, the
same command continues. `ptd-ext reproduce` runs methods over noise rates, several at a time, and
shows the published numbers beside the results."""


def main(argv: Sequence[str] | None = None) -> None:
    """Train the methods and print the table."""
    parser = CommandParser(
        prog="ptd-ext compare",
        usage="ptd-ext compare [options]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        common=("methods", "seeds", "config", "out", "data", *COMMON),
    )
    add = parser.add_argument
    methods = ["CE", "Forward", "Forward-band", "PTD-F"]
    text = f"methods to compare (default: {' '.join(methods)})"
    add("--methods", nargs="+", default=methods, metavar="METHOD", help=text)
    text = "number of seeds, counted from 0 (default: %(default)s)"
    add("--seeds", type=int, default=3, metavar="N", help=text)
    add("--config", type=Path, metavar="FILE", help="TOML file of settings")
    text = "folder of the runs (default: runs/compare-DATASET-RATE)"
    add("--out", type=Path, metavar="DIR", help=text)
    add_flags(parser, without=("method", "seed", "against"))
    arguments = parser.parse_args(argv)
    if arguments.seeds < 1:
        parser.error(f"--seeds must be at least 1; got {arguments.seeds}.")
    with report_errors(parser, lambda: "the same command"):
        _compare(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    config = {} if arguments.config is None else read_config(arguments.config)
    config |= {**flags_given(arguments), "against": ""}
    methods = arguments.methods
    first = resolve(_given(config, methods[0], 0), {})
    rate = [f"{first.rate:g}"] if first.noise != "none" else []
    out = arguments.out or Path("runs") / "-".join(["compare", first.dataset, *rate])
    config = {"warm_up_cache": str(out / "warm_up"), **config}  # the methods share their warm-up
    place = Placement.from_settings(first)
    results: dict[str, list[dict[str, Any]]] = {method: [] for method in methods}
    for seed in range(arguments.seeds):
        problem = load_problem(first.replace(seed=seed))
        given = {method: _given(config, method, seed) for method in methods}
        runs = {method: candidate_settings(given[method], problem) for method in methods}
        if seed == 0:  # all methods are checked before the first is trained
            for settings in chain(*runs.values()):
                stages_of(settings.for_training(problem.known_rate), problem.data)
        for method, candidates in runs.items():
            folder = out / method / str(seed)
            results[method].append(train(candidates, folder, place, problem, resume=True))
    if place.ranks.first:
        print(_table(results))
        print(f"in {out}")
    place.ranks.leave()


def _given(config: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """The given settings for one method."""
    return {**config, "method": method, "seed": seed}


def _table(results: dict[str, list[dict[str, Any]]]) -> str:
    title = f"{result_name(next(iter(results.values()))[0], 'test')} accuracy"
    lines = ["", f"{title:<26}{'chosen epoch':>16}{'last epoch':>18}"]
    for method, runs in results.items():
        chosen, last = (
            f"{summarise([run[name] for run in runs]).text()} %"
            for name in ("test_accuracy", "test_accuracy_last")
        )
        lines.append(f"{method:<26}{chosen:>16}{last:>18}")
    return "\n".join(lines)
