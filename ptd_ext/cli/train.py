"""`ptd-ext train`: one method on one data set, or two to compare."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ptd_ext.train.commands.errors import report_errors
from ptd_ext.train.config.presets import resolve
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.config.toml import add_flags, flags_given, read_config, write_config
from ptd_ext.train.data.problem import load_problem
from ptd_ext.train.engine.experiment import train
from ptd_ext.train.engine.experiment_folder import check_folder, new_folder, result_name
from ptd_ext.train.engine.feasibility import feasible_stages
from ptd_ext.train.engine.label_report import REPORT
from ptd_ext.train.engine.network_choice import with_network
from ptd_ext.train.engine.placement import Placement
from ptd_ext.train.methods.registry import METHODS
from ptd_ext.utils.claimed_folders import claim

DEFAULT = Path(__file__).parent.parent / "config" / "default.toml"
GIVEN = "given.toml"

DESCRIPTION = """\
Train a classifier on labels that are partly wrong.

Without any argument: scikit-learn's digits, 40 % of the labels wrong in ways that depend on the
image, PTD beside plain cross entropy, on the CPU, in some seconds."""

EXAMPLES = """\
examples:
  ptd-ext train
  ptd-ext train --dataset fashion_mnist --rate 0.5 --method PTD-F
  ptd-ext train --dataset cifar10 --data ~/data --preset paper --method PTD-R-V --amp float16
  ptd-ext train --dataset npz --data my.npz --noise none --method PTD-R-V
  ptd-ext train --config run.toml --out runs/mine       everything a flag sets, in a TOML file
  ptd-ext train --config runs/mine/settings.toml --out runs/mine --resume
  torchrun --nproc-per-node=2 -m ptd_ext train --dataset mnist --data ~/data

A setting comes from the flags, else from --config, else from the method, the preset and the data
set (in this order), else from its default. The run's folder keeps all of them in settings.toml, a
record per epoch in metrics.jsonl, a checkpoint, and at the end result.json, the chosen network and
the learned T(x), which ptd_ext.load_run(folder) reads; in labels.csv how likely each label is right
and what it should be, for every row of one's own data under its own id; and report.html, a page to
look at. Validation data choose the epoch; test data only report."""


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, train, print."""
    parser = parser_of_train()
    arguments = parser.parse_args(argv)
    if arguments.list:
        print("\n".join(METHODS))
        return
    with report_errors(parser, lambda: f"ptd-ext train --out {arguments.out} --resume"):
        _train(arguments)


def parser_of_train() -> argparse.ArgumentParser:
    """Make the parser, with a flag for every setting."""
    parser = argparse.ArgumentParser(
        prog="ptd-ext train",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file of settings")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the run; a new one in runs/"
    )
    parser.add_argument("--resume", action="store_true", help="go on from --out's last checkpoint")
    parser.add_argument("--list", action="store_true", help="name the methods, and end")
    add_flags(parser)
    return parser


def _train(arguments: argparse.Namespace) -> None:
    given = {**_config(arguments), **flags_given(arguments)}
    settings = resolve(given, {})
    place = Placement.of(settings)
    problem = load_problem(settings)
    sizes: dict[str, Any] = {"samples": problem.train_size, "shape": problem.sample_shape}
    chosen = with_network(given, problem, place, arguments.out if arguments.resume else None)
    settings = resolve(chosen, {}, **sizes)
    runs = {"": settings}
    if settings.against not in ("", settings.method):
        runs = {f"against-{settings.against}": _other(chosen, settings, sizes), **runs}
    for mine in runs.values():
        feasible_stages(mine, problem)  # of both, before the first is trained
    if arguments.out is None:
        # Only noise that is put on the labels is named.
        rate = [] if problem.asked_rate is None else [f"{problem.asked_rate:g}"]
        words = [settings.dataset, settings.method, *rate, str(settings.seed)]
        arguments.out = new_folder("-".join(words), place.ranks)
    out: Path = arguments.out
    for name, mine in runs.items():
        check_folder(mine, out / name, arguments.resume)

    def train_all() -> list[dict[str, Any]]:
        resume = arguments.resume
        return [train(runs[n], out / n, place, resume=resume, problem=problem) for n in runs]

    if all((out / name / "result.json").exists() for name in runs):
        results = train_all()  # only reads, so that the folder need not be writable
    else:
        with claim(out, place.ranks), _begun(out, runs, given, arguments.resume, place):
            results = train_all()
    if place.ranks.first:
        print(_table(results))
        print(f"in {out}")
        for page in (out / name / REPORT for name in runs):
            if page.exists():
                print(f"which labels are probably wrong: {page}")
    place.ranks.leave()


def _config(arguments: argparse.Namespace) -> dict[str, Any]:
    """Read the settings: of the file given, of the run to continue, or the default ones."""
    if arguments.config is not None:
        return read_config(arguments.config)
    if not arguments.resume:
        return {} if hasattr(arguments, "dataset") else read_config(DEFAULT)
    if arguments.out is None:
        raise ValueError("--resume needs --out, the folder of the run to go on with.")
    if not (arguments.out / GIVEN).exists():
        raise ValueError(f"{arguments.out} holds no run to go on with: there is no {GIVEN} in it.")
    return read_config(arguments.out / GIVEN)


def _other(given: dict[str, Any], settings: Settings, sizes: dict[str, Any]) -> Settings:
    """The settings of the method to compare with, on the same data."""
    given = {**given, "method": settings.against, "against": ""}
    if settings.against in METHODS and METHODS[settings.against].one_matrix:
        given.pop("parts", None)
    return resolve(given, {}, **sizes)


@contextmanager
def _begun(
    out: Path, runs: Iterable[str], given: dict[str, Any], resume: bool, place: Placement
) -> Iterator[None]:
    """Write the command's settings to the folder, which this process has locked.

    An error before the first run has begun leaves nothing behind.
    """

    def begun() -> bool:
        return any((out / name / "settings.toml").exists() for name in runs)

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
