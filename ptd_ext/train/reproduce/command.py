"""`ptd-ext reproduce`: the paper's tables, cell by cell, beside the published numbers."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ptd_ext.train.commands.errors import report_errors
from ptd_ext.train.config.presets import resolve
from ptd_ext.train.config.toml import read_config
from ptd_ext.train.data.problem import load_problem
from ptd_ext.train.engine.experiment_folder import read_finished
from ptd_ext.train.reproduce import options as parsing
from ptd_ext.train.reproduce.formatting import duration
from ptd_ext.train.reproduce.grid import Cell, differences
from ptd_ext.train.reproduce.report import report_ablation, report_accuracy
from ptd_ext.train.reproduce.results import Result, read_result
from ptd_ext.train.reproduce.scheduler import Queue
from ptd_ext.train.reproduce.time_left import Estimate
from ptd_ext.train.reproduce.workers import Outcome, Workers

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing of a table, then report it."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = parsing.parser()
    options = parsing.parse(parser, argv)
    if find_spec("scipy") is None:
        # This error comes before hours of training, not after them.
        parser.exit(1, 'The significance test needs scipy: pip install "ptd_ext[train]".\n')
    report = report_ablation if options.what == "ablation" else report_accuracy
    with report_errors(parser):
        if options.report_only:
            sys.exit(0 if report(options.out) else 1)
        _fill(parser, options, argv, report)


def _fill(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    argv: Sequence[str],
    report: Callable[[Path], bool],
) -> None:
    """Run the cells that are missing, and report."""
    table: Path = options.out
    cells = parsing.cells(options)
    configs = {cell: cell.config(parsing.shared(options)) for cell in cells}
    _check(parser, configs)
    done, other = _done(table, configs)
    if other:
        parser.exit(2, _conflict(other))
    if problem := _other_data(table, configs, done):
        parser.exit(2, problem)
    outcome = _run(table, configs, done, options)
    if outcome.signal:
        again = shlex.join(["ptd-ext", "reproduce", *argv])
        print(
            "Stopped. Finished cells are kept, and unfinished ones go on from their checkpoints "
            f"with the same command:\n  {again}\nWith --report-only it makes the table so far."
        )
        sys.exit(128 + outcome.signal)
    report(table)
    for cell, problem in {**outcome.failed, **outcome.skipped}.items():
        print(f"Not in the table: {cell}, {problem}; see {cell.folder(table) / 'log.txt'}.")
    sys.exit(1 if outcome.failed or outcome.skipped else 0)


def _check(parser: argparse.ArgumentParser, configs: dict[Cell, dict[str, Any]]) -> None:
    """Report an invalid setting once, now, and not in every cell."""
    for config in configs.values():
        try:
            resolve(config, {})
        except (ValueError, TypeError) as error:
            parser.error(str(error))


def _done(
    table: Path, configs: dict[Cell, dict[str, Any]]
) -> tuple[list[Cell], dict[Path, list[str]]]:
    """Return the finished cells, and the folders of cells that have other settings."""
    done: list[Cell] = []
    other: dict[Path, list[str]] = {}
    for cell, config in configs.items():
        folder = cell.folder(table)
        before = folder / "cell.toml"
        if before.exists() and (found := differences(read_config(before), config)):
            other[folder] = found
        elif _readable(folder):
            done.append(cell)
    return done, other


def _readable(folder: Path) -> bool:
    """Return True if there is a result; a damaged one is reported by the run itself."""
    try:
        read_result(folder)
    except ValueError:
        return False
    return True


def _other_data(table: Path, configs: dict[Cell, dict[str, Any]], done: list[Cell]) -> str:
    """Return a sentence if finished cells had other data than the next ones would have.

    One cell is enough: it was compared in the same way before every later one was run.
    """
    for cell in done:
        folder = cell.folder(table)
        if "fingerprint" not in read_result(folder).values:
            continue
        try:
            problem = load_problem(resolve(configs[cell], {}))
        except (OSError, ValueError, ImportError):
            return ""  # without data nothing is run, and what is done stays as it is
        try:
            read_finished(folder / "result.json", problem)
        except ValueError as error:
            return f"{error}\n"
        return ""
    return ""


def _conflict(other: dict[Path, list[str]]) -> str:
    folder, found = next(iter(other.items()))
    more = len(other) - 1
    others = f", and {more} more cell{'s' * (more > 1)} like it" if more else ""
    return (
        f"{folder} was run with {', '.join(found)}{others}. A table does not mix settings: "
        "choose another --out, or delete what is to be run anew.\n"
    )


def _run(
    table: Path, configs: dict[Cell, dict[str, Any]], done: list[Cell], options: argparse.Namespace
) -> Outcome:
    total, finished = len(configs), set(done)
    jobs = options.jobs
    print(f"{total} cells, {len(done)} of them done; {jobs} at a time; results in {table}")
    estimate = Estimate()
    for cell in done:
        estimate.learn(cell, _seconds(cell.folder(table)))
    queue = Queue([cell for cell in configs if cell not in finished], done)
    ended = len(done)

    def tell(cell: Cell, result: Result, elapsed: float, running: dict[Cell, float]) -> None:
        nonlocal ended
        ended += 1
        # A resumed run has taken longer than its last process, and a process longer than its run.
        took = max(result.values.get("seconds") or 0.0, elapsed)
        estimate.learn(cell, took)
        line = f"[{ended}/{total}] {cell}: {result.accuracy:.2f} % in {duration(took)}"
        left = len(queue.waiting) + len(running)
        rest = estimate.left(queue.waiting, running, jobs)
        if left:
            line += f"; {left} left" + ("" if rest is None else f", about {duration(rest)}")
        print(line, flush=True)

    workers = Workers(
        table, configs, jobs=jobs, threads=options.threads_per_job, gpus=options.gpus, tell=tell
    )
    return workers.run(queue)


def _seconds(folder: Path) -> float | None:
    """The duration of a finished run, if its result can be read."""
    try:
        return read_result(folder).values.get("seconds")
    except ValueError:
        return None
