"""`ptd-ext compare`: several methods on the same noisy data, over several seeds."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptd_ext.train.commands.errors import report_errors
from ptd_ext.train.config.presets import resolve
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.config.toml import add_flags, flags_given, read_config
from ptd_ext.train.data.problem import Problem, load_problem
from ptd_ext.train.engine.experiment import train
from ptd_ext.train.engine.experiment_folder import result_name
from ptd_ext.train.engine.feasibility import feasible_stages
from ptd_ext.train.engine.network_choice import with_network
from ptd_ext.train.engine.placement import Placement
from ptd_ext.train.methods.registry import METHODS

DESCRIPTION = """\
Train several methods on the same noisy data and print mean ± standard deviation over seeds of
their accuracy on clean test data. A new idea is compared by --network module:factory, or by a
method of one's own: see ptd_ext.train.methods."""

EXAMPLES = """\
examples:
  ptd-ext compare
  ptd-ext compare --methods CE Forward-band PTD-F --dataset fashion_mnist --rate 0.5 --seeds 5
  ptd-ext compare --config mine.toml --out runs/mine     a finished run in the folder is kept

Every run lies in OUT/METHOD/SEED, as `ptd-ext train` leaves it; called again, the command goes on
where it was. For a table over noise rates, beside the published numbers, on several cores at once:
`ptd-ext reproduce`."""


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, train all, print."""
    parser = argparse.ArgumentParser(
        prog="ptd-ext compare",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--methods", nargs="+", default=["CE", "Forward", "Forward-band", "PTD-F"], metavar="NAME"
    )
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 to SEEDS − 1 (%(default)s)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file of settings")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder (runs/compare-DATA-RATE)")
    add_flags(parser, without=("method", "seed", "against"))
    arguments = parser.parse_args(argv)
    if arguments.seeds < 1:
        parser.error(f"--seeds must be at least 1; got {arguments.seeds}.")
    with report_errors(parser, lambda: "the same command"):
        _compare(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    config = {} if arguments.config is None else read_config(arguments.config)
    config |= {**flags_given(arguments), "against": ""}
    first = _settings(config, arguments.methods[0], 0, Path())
    rate = [f"{first.rate:g}"] if first.noise != "none" else []
    out = arguments.out or Path("runs") / "-".join(["compare", first.dataset, *rate])
    place = Placement.of(first)
    results: dict[str, list[dict[str, Any]]] = {method: [] for method in arguments.methods}
    for seed in range(arguments.seeds):
        problem = None
        for method in arguments.methods:
            if problem is None:
                problem = load_problem(_settings(config, method, seed, out))
                config = with_network(config, problem, place, out / method / "0")
                for other in arguments.methods:
                    feasible_stages(_settings(config, other, seed, out, problem), problem)
            settings = _settings(config, method, seed, out, problem)
            folder = out / method / str(seed)
            result = train(settings, folder, place, resume=True, problem=problem)
            results[method].append(result)
    if place.ranks.first:
        print(_table(results))
        print(f"in {out}")
    place.ranks.leave()


def _settings(
    config: dict[str, Any], method: str, seed: int, out: Path, problem: Problem | None = None
) -> Settings:
    given = {**config, "method": method, "seed": seed}
    if method in METHODS and METHODS[method].one_matrix:
        given.pop("parts", None)
    sizes: dict[str, Any] = {}
    if problem is not None:
        sizes = {"samples": problem.train_size, "shape": problem.sample_shape}
    settings = resolve(given, {}, **sizes)
    # Methods share the warmed-up network.
    return settings.replace(warm_up_cache=settings.warm_up_cache or str(out / "warm_up"))


def _table(results: dict[str, list[dict[str, Any]]]) -> str:
    title = f"{result_name(next(iter(results.values()))[0], 'test')} accuracy"
    lines = ["", f"{title:<26}{'chosen epoch':>16}{'last epoch':>18}"]
    for method, runs in results.items():
        columns = [
            _spread([run[n] for run in runs]) for n in ("test_accuracy", "test_accuracy_last")
        ]
        lines.append(f"{method:<26}{columns[0]:>16}{columns[1]:>18}")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation} %"
