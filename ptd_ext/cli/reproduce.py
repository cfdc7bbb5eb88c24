"""`ptd-ext reproduce`: the paper's tables, cell by cell, beside the published numbers."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ptd_ext.cli.errors import report_errors
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.reproduce import options as parsing
from ptd_ext.experiments.reproduce.grid import Cell
from ptd_ext.experiments.reproduce.pool import Pool
from ptd_ext.experiments.reproduce.report import report
from ptd_ext.experiments.reproduce.results import OtherSettingsError, Result, finished_result
from ptd_ext.experiments.run.experiment_folder import read_finished


def main(argv: Sequence[str] | None = None) -> None:
    """Run the missing cells of a table, then report it."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = parsing.parser()
    options = parsing.parse(parser, argv)
    if find_spec("scipy") is None:
        # This error comes before hours of training, not after them.
        parser.exit(1, 'The significance test needs scipy: pip install "ptd_ext[all]".\n')
    with report_errors(parser):
        if options.report_only:
            sys.exit(0 if report(options.out, ablation=options.ablation) else 1)
        _fill(parser, options, argv)


def _fill(
    parser: argparse.ArgumentParser, options: argparse.Namespace, argv: Sequence[str]
) -> None:
    """Run the missing cells, and report the table."""
    table: Path = options.out
    shared = parsing.shared(options)
    configs = {cell: cell.config(shared) for cell in parsing.cells(options)}
    for config in configs.values():
        try:
            resolve(config, {})  # an invalid setting is reported once, not by every cell
        except (ValueError, TypeError) as error:
            parser.error(str(error))
    done = _done(table, configs)
    _check_data(table, configs, done)
    index, count = options.shard
    cells = f"{len(configs)} cells" + (f" of shard {index}/{count}" if count > 1 else "")
    print(f"{cells}, {len(done)} of them done; {options.jobs} at a time; results in {table}")
    pool = Pool(table, configs, jobs=options.jobs, threads=options.threads, gpus=options.gpus)
    pool.run(done)
    if pool.signal:
        again = shlex.join(["ptd-ext", "reproduce", *argv])
        print(
            "Stopped. Finished cells are kept; the same command continues the others from their "
            f"checkpoints:\n  {again}\nWith --report-only it makes the table of the results so far."
        )
        sys.exit(128 + pool.signal)
    report(table, ablation=options.ablation)
    for cell, problem in pool.missing.items():
        print(f"Not in the table: {cell}, {problem}; see {cell.folder(table) / 'log.txt'}.")
    sys.exit(1 if pool.missing else 0)


def _done(table: Path, configs: dict[Cell, dict[str, Any]]) -> dict[Cell, Result]:
    """Return the finished cells; raises if any cell has been run with other settings."""
    done: dict[Cell, Result] = {}
    others = []
    for cell, config in configs.items():
        try:
            if result := finished_result(cell.folder(table), config):
                done[cell] = result
        except OtherSettingsError as error:
            others.append(str(error))
    if others:
        raise OtherSettingsError(
            f"{others[0]} Cells that differ: {len(others)}. A table does not mix settings: give "
            "another --out, or delete the folders of these cells to run them again."
        )
    return done


def _check_data(table: Path, configs: dict[Cell, dict[str, Any]], done: dict[Cell, Result]) -> None:
    """Raise if the finished cells were run on other data than the next ones would be.

    One cell is enough: it was compared in the same way before every later one was run.
    """
    cell = next((cell for cell, result in done.items() if "fingerprint" in result.values), None)
    if cell is None:
        return
    try:
        problem = load_problem(resolve(configs[cell], {}))
    except (OSError, ValueError, ImportError):
        return  # without the data nothing is run, and the finished cells stay as they are
    read_finished(cell.folder(table) / "result.json", problem)
