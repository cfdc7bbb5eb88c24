"""`ptd-ext train`: one method on one data set, or two to compare."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from ptd_ext.cli.errors import report_errors
from ptd_ext.engine.methods.registry import METHODS, listing, stages_of
from ptd_ext.engine.training.placement import Placement
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.datasets.registry import DATA_SETS
from ptd_ext.experiments.flags import COMMON, add_flags, flags_given
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.run.candidates import candidate_settings
from ptd_ext.experiments.run.experiment import train
from ptd_ext.experiments.run.experiment_folder import new_folder, result_name
from ptd_ext.experiments.run.trained_run import REPORT, RESULT, SETTINGS
from ptd_ext.experiments.toml import read_config, write_config
from ptd_ext.utils.claimed_folders import claim
from ptd_ext.utils.command_parser import CommandParser

DEFAULT = Path(__file__).parent.parent / "experiments" / "default.toml"
GIVEN = "given.toml"

DESCRIPTION = """\
Train a classifier on labels, some of which are wrong.

DATA is a table, an .npz file or a folder of images, or the folder with the files of a --dataset.
Without arguments, PTD-L and cross entropy are trained on scikit-learn's digits, with 40 % of the
labels wrong in ways that depend on the image. This takes some seconds on a CPU."""

EXAMPLES = """\
examples:
  ptd-ext train
  ptd-ext train my.csv --label species --against CE
  ptd-ext train --dataset fashion_mnist --rate 0.5 --method PTD-F
  ptd-ext train ~/data --dataset cifar10 --preset paper --method PTD-R-V --amp float16
  ptd-ext train --config run.toml --out runs/mine       everything a flag sets, in a TOML file
  ptd-ext train --config runs/mine/settings.toml --out runs/mine --resume
  torchrun --nproc-per-node=2 -m ptd_ext train ~/data --dataset mnist

A setting is taken from the flags, else from --config, else from the method, the preset and the data
set (in this order), else from its default. The epoch is selected on validation data; test data are
only reported. The folder of a run holds

  settings.toml, metrics.jsonl      all settings, and a record per epoch
  checkpoint.pt                     the state of training, for --resume
  result.json, model.safetensors    accuracies, and the selected network with T(x), which
                                    ptd_ext.TrainedRun.load(folder) reads
  labels.csv, report.html           how likely the label of each row is right and what it should
                                    be, as a table and as a page"""


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, train, print."""
    parser = parser_of_train()
    arguments = parser.parse_args(argv)
    if arguments.list:
        print(listing())
        return
    with report_errors(parser, lambda: f"ptd-ext train --out {arguments.out} --resume"):
        if arguments.path is not None:
            _set_data(arguments)
        _train(arguments)


def parser_of_train() -> CommandParser:
    """Make the parser, with a flag for every setting."""
    parser = CommandParser(
        prog="ptd-ext train",
        usage="ptd-ext train [DATA] [options]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        common=("config", "out", "resume", "list", *COMMON),
    )
    parser.add_argument(
        "path", nargs="?", metavar="DATA", help="file or folder of the data, as --data"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file of settings")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the run (default: a new one in runs/)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue from the last checkpoint in --out"
    )
    parser.add_argument("--list", action="store_true", help="list the methods and exit")
    add_flags(parser)
    return parser


def _set_data(arguments: argparse.Namespace) -> None:
    """Take DATA as --data, unless it is a name that belongs to another flag."""
    path = arguments.path
    if getattr(arguments, "data", path) != path:
        raise ValueError(f"DATA and --data must not be given together; got {path!r}.")
    if not Path(path).exists():
        for flag, names in (("dataset", DATA_SETS), ("method", METHODS)):
            if path in names:
                raise ValueError(
                    f"DATA must be a file or folder; {path!r} is the name of a {flag}. Did you "
                    f"mean `ptd-ext train --{flag} {path}`?"
                )
    arguments.data = path


def _train(arguments: argparse.Namespace) -> None:
    given = {**_config(arguments), **flags_given(arguments)}
    settings = resolve(given, {})
    place = Placement.from_settings(settings)
    problem = load_problem(settings)
    if place.ranks.first and problem.warnings:
        print("\n".join(problem.warnings))
    runs = {"": candidate_settings(given, problem)}
    if settings.against not in ("", settings.method):
        other = candidate_settings({**given, "method": settings.against, "against": ""}, problem)
        runs = {f"against-{settings.against}": other, **runs}
    for mine in chain(*runs.values()):  # all are checked before the first is trained
        stages_of(mine.for_training(problem.known_rate), problem.data)
    if arguments.out is None:
        # Only noise that is put on the labels is named.
        rate = [] if problem.asked_rate is None else [f"{problem.asked_rate:g}"]
        words = [settings.dataset, settings.method, *rate, str(settings.seed)]
        arguments.out = new_folder("-".join(words), place.ranks)
    out: Path = arguments.out

    def train_all() -> list[dict[str, Any]]:
        return [
            train(candidates, out / name, place, problem, resume=arguments.resume)
            for name, candidates in runs.items()
        ]

    if all((out / name / RESULT).exists() for name in runs):
        results = train_all()  # only reads, so that the folder need not be writable
    else:
        with claim(out, place.ranks), _given_settings(out, runs, given, arguments.resume, place):
            results = train_all()
    if place.ranks.first:
        print(_table(results))
        print(f"in {out}")
        for page in (out / name / REPORT for name in runs):
            if page.exists():
                print(f"labels that are probably wrong: {page}")
    place.ranks.leave()


def _config(arguments: argparse.Namespace) -> dict[str, Any]:
    """Read the settings: of the file given, of the run to continue, or the default ones."""
    if arguments.config is not None:
        return read_config(arguments.config)
    if not arguments.resume:
        named = hasattr(arguments, "dataset") or hasattr(arguments, "data")
        return {} if named else read_config(DEFAULT)
    if arguments.out is None:
        raise ValueError("--resume needs --out, the folder of the run to continue.")
    if not (arguments.out / GIVEN).exists():
        raise ValueError(f"{arguments.out} does not hold a run to continue: it has no {GIVEN}.")
    return read_config(arguments.out / GIVEN)


@contextmanager
def _given_settings(
    out: Path, runs: Iterable[str], given: dict[str, Any], resume: bool, place: Placement
) -> Iterator[None]:
    """Write the command's settings to the folder, which this process has locked.

    An error before the first run has begun leaves nothing behind.
    """

    def begun() -> bool:
        return any((out / name / SETTINGS).exists() for name in runs)

    if place.ranks.first and not begun() and not (resume and (out / GIVEN).exists()):
        write_config(given, out / GIVEN)
    try:
        yield
    except (OSError, ValueError, ImportError):
        if place.ranks.first and not begun():
            (out / GIVEN).unlink(missing_ok=True)
        raise


def _table(results: list[dict[str, Any]]) -> str:
    test = result_name(results[0], "test")
    validation = result_name(results[0], "validation")
    lines = ["", f"{'':<14}{test} accuracy, at the epoch chosen on {validation} | last epoch"]
    lines += [
        f"{r['method']:<14}{r['test_accuracy']:6.2f} %  |  {r['test_accuracy_last']:6.2f} %"
        for r in results
    ]
    return "\n".join(lines)
