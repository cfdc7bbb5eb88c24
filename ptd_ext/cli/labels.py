"""`ptd-ext labels`: finds wrong labels in the user's own data."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ptd_ext.cli.errors import report_errors
from ptd_ext.cli.results_folder import (
    CHANGES,
    REPORT,
    TABLE,
    cleaned_name,
    remove_unfinished,
    results_folder,
)
from ptd_ext.data.read import read_data
from ptd_ext.data.user_data import UserData
from ptd_ext.engine.rows.encoders import image_side
from ptd_ext.engine.rows.image_files import MAX_SIZE, ImageFiles
from ptd_ext.engine.rows.labels import encode_labels
from ptd_ext.label_issues._parameters import check_folds, check_parameters
from ptd_ext.label_issues.classifier import PTDClassifier
from ptd_ext.label_issues.find import find_label_issues
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.review.apply import apply_decisions
from ptd_ext.label_issues.samples import show_rows
from ptd_ext.utils.command_parser import CommandParser

DESCRIPTION = """\
Judge every label of a table, an .npz file or a folder of images: how likely it is right, and what
it should be. Writes labels.csv, with one row per row of the data in the same order, and the page
report.html to a folder beside the data."""

EXAMPLES = """\
examples:
  ptd-ext labels data.csv --label species
  ptd-ext labels reviews.csv --label stars --text review --relabel
  ptd-ext labels embeddings.npz                arrays x [N, D] and y [N]
  ptd-ext labels photos/ --encoder timm:resnet18.a1_in1k    a folder of images for each class
  ptd-ext labels data.csv --label species --verified decisions.csv
  ptd-ext labels data.csv --label species --apply decisions.csv"""

# Flags of the parameters of PTDClassifier, whose defaults they have: flag, type, metavar and help.
_FLAGS: dict[str, tuple[str, Any, str, str]] = {
    "method": ("--method", str, "NAME", "method, see `ptd-ext train --list`"),
    "network": ("--network", str, "NAME", "name of the network, such as linear, mlp or lenet5"),
    "n_parts": ("--n-parts", int, "R", "number of parts of T(x)"),
    "epochs": ("--epochs", int, "N", "epochs per stage of training"),
    "validation_fraction": ("--validation-fraction", float, "SHARE", "share of rows held out"),
    "encoder": (
        "--encoder",
        str,
        "NAME",
        "pretrained network for texts or images: sentence-transformers:NAME, timm:NAME, "
        "torchvision:NAME or a file of ResNet weights",
    ),
    "random_state": ("--seed", int, "N", "seed of the split and the networks"),
    "device": ("--device", str, "NAME", "device, such as cpu or cuda:1"),
    "flag_share": (
        "--flag-share",
        float,
        "SHARE",
        "number of flagged rows, relative to the estimated number of wrong labels",
    ),
}
_ADVICE = (
    "Photographs are judged better by a pretrained network: --encoder timm:NAME or "
    "torchvision:NAME, see the guide on images."
)
_DIGITS = 16  # on the page, from the digest of the data
# Defaults that PTDClassifier finds for the data or the machine.
_DEFAULTS = {
    "epochs": (None, "10 to 100, fewer for more rows"),
    "validation_fraction": (None, "0.1 to 0.3, more for fewer rows"),
    "encoder": (None, "none"),
    "device": (None, "a GPU if there is one"),
}
# The options that people use, which the short help shows.
_COMMON = (
    *("label", "text", "columns", "ignore", "encoder"),
    *("out", "drop", "relabel", "apply", "verbose"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the arguments, judge the labels, and write table, report and cleaned copy."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    with report_errors(parser), _named_as_flags():
        _run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="ptd-ext labels",
        usage="ptd-ext labels DATA [options]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        common=_COMMON,
    )
    add = parser.add_argument
    kinds = ".csv, .tsv, .parquet, .npz or .npy file, or a folder of images"
    add("data", type=Path, metavar="DATA", help=kinds)
    add("--label", metavar="COLUMN", help="column of the labels, or their .npy file")
    add("--text", metavar="COLUMN", help="text column to learn from, instead of all others")
    add("--columns", nargs="+", default=[], metavar="COLUMN", help="columns to learn from")
    add("--ignore", nargs="+", default=[], metavar="COLUMN", help="columns not to learn from")
    add(
        "--image-size",
        type=int,
        metavar="N",
        help="image side in pixels (default: 32, or that of the encoder)",
    )
    add("--out", type=Path, metavar="FOLDER", help="folder of the results (default: DATA-labels)")
    add(
        "--max-samples",
        type=int,
        default=500,
        metavar="N",
        help="maximum number of rows on the page (default: 500)",
    )
    cleaned = parser.add_mutually_exclusive_group()
    cleaned.add_argument(
        "--drop",
        action="store_true",
        help="write a copy without the flagged rows; an error if the findings cannot be trusted",
    )
    cleaned.add_argument(
        "--relabel",
        action="store_true",
        help="write a copy with the suggested labels; an error if the findings cannot be trusted",
    )
    cleaned.add_argument(
        "--apply",
        type=Path,
        metavar="FILE",
        help="write a copy cleaned by the decisions in this .csv or .jsonl file, and the log of "
        "changes changes.csv, to DATA-cleaned; nothing is judged",
    )
    add(
        "--cross-fit",
        type=int,
        default=0,
        metavar="FOLDS",
        help="number of folds; a network trained without its fold judges each row (default: 0)",
    )
    add(
        "--verified",
        type=Path,
        metavar="FILE",
        help="decisions of reviewers, a .csv or .jsonl file, by which all labels are judged",
    )
    for name, (flag, kind, metavar, text) in _FLAGS.items():
        default, shown = _default(name)
        add(
            flag,
            dest=name,
            type=kind,
            default=default,
            metavar=metavar,
            help=f"{text} (default: {shown})",
        )
    progress = parser.add_mutually_exclusive_group()
    progress.add_argument("--verbose", action="store_true", help="print a line for every epoch")
    progress.add_argument("--no-progress", action="store_true", help="do not show a progress bar")
    return parser


def _default(name: str) -> tuple[Any, str]:
    """The default of a parameter, and how the help shows it."""
    if name in _DEFAULTS:
        return _DEFAULTS[name]
    value = inspect.signature(PTDClassifier).parameters[name].default
    return value, str(value)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.apply is not None:
        _apply(arguments)
        return
    out = arguments.out or _beside(arguments.data, "labels")
    options = {name: getattr(arguments, name) for name in _FLAGS}
    check_parameters(PTDClassifier(**options))
    check_folds(arguments.cross_fit)
    if arguments.image_size is not None and not 1 <= arguments.image_size <= MAX_SIZE:
        raise ValueError(f"--image-size must be from 1 to {MAX_SIZE}; got {arguments.image_size}.")
    if arguments.max_samples < 0:
        raise ValueError(f"--max-samples must be at least 0; got {arguments.max_samples}.")
    with results_folder(out, arguments.data):
        data = _read(arguments)
        files = isinstance(data.X, ImageFiles)
        found = find_label_issues(
            # An encoder reads image files batch by batch.
            data.X if files and arguments.encoder else data.rows(),
            data.y,
            ids=data.ids,
            columns=data.columns,
            cross_fit=arguments.cross_fit,
            verified=arguments.verified,
            progress=True if arguments.verbose else False if arguments.no_progress else None,
            **options,
        )
        digests = {f"SHA-256 of {p.name}": d.hex()[:_DIGITS] for p, d in data.digests.items()}
        found = dataclasses.replace(
            found,
            notes=(*data.notes, *found.notes),
            warnings=(*data.warnings, *found.warnings),
            facts={**found.facts, **digests},
        )
        if found.notes:
            print("columns:", *found.notes, sep="\n  ")
        print(found)
        if files and not arguments.encoder:
            print(_ADVICE)
        if (arguments.drop or arguments.relabel) and not found.trusted:
            raise ValueError(
                "The findings cannot be trusted, so that no cleaned copy can be made: see the "
                "warnings. Leave out --drop and --relabel to get the table and the report."
            )
        _write(data, found, out, arguments)


def _read(arguments: argparse.Namespace) -> UserData:
    return read_data(
        arguments.data,
        label=arguments.label,
        text=arguments.text,
        columns=tuple(arguments.columns),
        ignore=tuple(arguments.ignore),
        image_size=arguments.image_size or image_side(arguments.encoder),
    )


def _apply(arguments: argparse.Namespace) -> None:
    """Write the copy that decisions lead to, and its log."""
    out = arguments.out or _beside(arguments.data, "cleaned")
    with results_folder(out, arguments.data, CHANGES):
        data = _read(arguments)
        labels = encode_labels(data.y)
        cleaned = apply_decisions(arguments.apply, data.ids, labels)
        data.check_unchanged()  # before earlier results are removed
        remove_unfinished(out)
        copy = cleaned_name(data.path)
        data.write_copy(out / copy, cleaned.keep, cleaned.labels)
        cleaned.save_log(out / CHANGES)  # written last: it marks the results as complete
        print(cleaned)
        print(f"written to {out}: {copy}, {CHANGES}")


def _beside(data: Path, ending: str) -> Path:
    """The folder of the results, where --out does not name one."""
    path = Path(os.path.abspath(data)) if data.name in ("", "..") else data
    if not path.name:
        raise ValueError(f"--out must name a folder for the results of {data}.")
    return path.with_name(f"{path.stem}-{ending}")


def _write(data: UserData, found: LabelIssues, out: Path, arguments: argparse.Namespace) -> None:
    copy = cleaned_name(data.path) if arguments.drop or arguments.relabel else None
    if copy is not None:
        data.check_unchanged()  # before earlier results are removed
    remove_unfinished(out)
    written = [TABLE, REPORT]
    if copy is not None:  # first, so that an error leaves no other results
        keep = ~found.is_label_issue if arguments.drop else np.ones(len(found), dtype=bool)
        labels = found.given_label if arguments.drop else found.suggested_label
        data.write_copy(out / copy, keep, labels)
        written.append(copy)
    sample = None if data.shown is None else show_rows(data.shown)
    found.report(
        out / REPORT,
        title=f"Labels of {data.path.name}",
        sample=sample,
        max_samples=arguments.max_samples,
    )
    found.to_csv(out / TABLE)  # written last: it marks the results as complete
    print(f"written to {out}: {', '.join(written)}")


@contextmanager
def _named_as_flags() -> Iterator[None]:
    """Replace names of arguments in error messages by those of their flags."""
    try:
        yield
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        name, space, rest = str(error).partition(" ")
        flags = {name: flag for name, (flag, *_) in _FLAGS.items()} | {"cross_fit": "--cross-fit"}
        message = f"{flags.get(name, name)}{space}{rest}"
        for name, flag in flags.items():
            if "_" in name:  # others are words, too
                # Names of files and columns may contain that of an argument.
                message = re.sub(rf"(?<![\w./-]){name}(?![\w./-])", flag, message)
        raise ValueError(message) from None
