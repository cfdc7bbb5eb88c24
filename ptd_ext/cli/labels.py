"""`ptd-ext labels`: finds wrong labels in the user's own data."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ptd_ext.label_issues._parameters import check_folds, check_parameters
from ptd_ext.label_issues.classifier import PTDClassifier
from ptd_ext.label_issues.files.results_folder import (
    REPORT,
    TABLE,
    cleaned_name,
    remove_unfinished,
    results_folder,
)
from ptd_ext.label_issues.files.tables import OwnData, read_own_data
from ptd_ext.label_issues.find import find_label_issues
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.inputs.samples import show_rows
from ptd_ext.train.commands.errors import report_errors
from ptd_ext.train.config.bounds import MAX_IMAGE_SIZE

DESCRIPTION = """\
Judge every label of a table, of arrays or of a folder of images: how likely it is right, and what
it should be. Writes labels.csv, with a row for every row of the data in their order, and
report.html, a page to look at, to a folder beside the data."""

EXAMPLES = """\
examples:
  ptd-ext labels data.csv --label species
  ptd-ext labels reviews.csv --label stars --text review --relabel
  ptd-ext labels embeddings.npz                arrays x [N, D] and y [N]
  ptd-ext labels photos/ --image-size 64       a folder of images for each class"""

# The flags of arguments that have another name in Python.
_FLAGS = {
    "cross_fit": "--cross-fit",
    "device": "--device",
    "feature_extractor": "--features",
    "flag_share": "--flag-share",
    "max_epochs": "--epochs",
    "method": "--method",
    "n_parts": "--parts",
    "network": "--network",
    "random_state": "--seed",
    "validation_fraction": "--validation",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the arguments, judge the labels, and write table, report and cleaned copy."""
    parser = argparse.ArgumentParser(
        prog="ptd-ext labels",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", type=Path, help=".csv, .tsv, .parquet or .npz file, or a folder")
    parser.add_argument("--label", metavar="COLUMN", help="column of the labels")
    parser.add_argument("--text", metavar="COLUMN", help="column of texts to learn from")
    parser.add_argument(
        "--leave-out", nargs="*", default=[], metavar="COLUMN", help="columns not to learn from"
    )
    parser.add_argument("--image-size", type=int, metavar="PIXELS", help="a side (default: 32)")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="default: the data's name with -labels"
    )
    cleaned = parser.add_mutually_exclusive_group()
    cleaned.add_argument(
        "--drop", action="store_true", help="write a copy without the rows that are flagged"
    )
    cleaned.add_argument(
        "--relabel", action="store_true", help="write a copy with the suggested labels"
    )
    parser.add_argument(
        "--flag-share",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="rows to flag in units of the estimated number of wrong labels (default: 1)",
    )
    parser.add_argument(
        "--cross-fit",
        type=int,
        default=0,
        metavar="FOLDS",
        help="judge each row by a network trained without its fold (default: 0, by one network)",
    )
    parser.add_argument(
        "--method", default=None, help="as `ptd-ext train --list` names them (default: PTD-L)"
    )
    parser.add_argument("--network", default="auto", help="linear, mlp, lenet5, … (default: auto)")
    parser.add_argument(
        "--parts", type=int, default=10, metavar="R", help="number of parts of T(x) (default: 10)"
    )
    parser.add_argument(
        "--epochs",
        type=int,
        metavar="N",
        help="of each stage of training (default: 10 to 100, fewer for more rows)",
    )
    parser.add_argument(
        "--validation",
        type=float,
        metavar="SHARE",
        help="rows held out to choose the epoch and the network (default: 0.1 to 0.3)",
    )
    parser.add_argument(
        "--features", metavar="FILE", help="weights of a ResNet whose features images are given by"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the network (default: 0)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, … (default: a GPU if there is one)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--verbose", action="store_true", help="print a line for every epoch")
    shown.add_argument("--quiet", action="store_true", help="show no progress bar")
    arguments = parser.parse_args(argv)
    with report_errors(parser), _named_as_flags():
        _run(arguments)


def _run(arguments: argparse.Namespace) -> None:
    out = arguments.out or _beside(arguments.data)
    method = {} if arguments.method is None else {"method": arguments.method}
    options = {
        "random_state": arguments.seed,
        "network": arguments.network,
        "n_parts": arguments.parts,
        "max_epochs": arguments.epochs,
        "validation_fraction": arguments.validation,
        "feature_extractor": arguments.features,
        "flag_share": arguments.flag_share,
        "device": arguments.device,
        **method,
    }
    check_parameters(PTDClassifier(**options))
    check_folds(arguments.cross_fit)
    if arguments.image_size is not None and not 1 <= arguments.image_size <= MAX_IMAGE_SIZE:
        raise ValueError(
            f"--image-size must be from 1 to {MAX_IMAGE_SIZE}; got {arguments.image_size}."
        )
    with results_folder(out, arguments.data):
        data = read_own_data(
            arguments.data,
            label=arguments.label,
            text=arguments.text,
            leave_out=tuple(arguments.leave_out),
            image_size=arguments.image_size,
        )
        for note in data.notes:
            print(note)
        found = find_label_issues(
            data.X,
            data.y,
            ids=data.ids,
            cross_fit=arguments.cross_fit,
            progress=True if arguments.verbose else False if arguments.quiet else None,
            **options,
        )
        found = dataclasses.replace(found, warnings=(*data.warnings, *found.warnings))
        print(found)
        _write(data, found, out, arguments)


def _beside(data: Path) -> Path:
    """The folder of the results, where --out does not name one."""
    path = Path(os.path.abspath(data)) if data.name in ("", "..") else data
    if not path.name:
        raise ValueError(f"--out must name a folder for the results of {data}.")
    return path.with_name(f"{path.stem}-labels")


def _write(data: OwnData, found: LabelIssues, out: Path, arguments: argparse.Namespace) -> None:
    remove_unfinished(out)
    written = [TABLE, REPORT]
    sample = None if data.shown is None else show_rows(data.shown)
    found.report(out / REPORT, title=f"Labels of {data.path.name}", sample=sample)
    cleaned = arguments.drop or arguments.relabel
    if cleaned and found.trusted:
        name = cleaned_name(data.path)
        keep = ~found.is_label_issue if arguments.drop else np.ones(len(found), dtype=bool)
        labels = found.given_label if arguments.drop else found.suggested_label
        data.write_cleaned(out / name, keep, labels)
        written.append(name)
    found.to_csv(out / TABLE)  # the last, which says that all of it is there
    print(f"written to {out}: {', '.join(written)}")
    if cleaned and not found.trusted:
        raise ValueError("no cleaned copy is written, since nothing was found that can be trusted.")


@contextmanager
def _named_as_flags() -> Iterator[None]:
    """Name flags in sentences that name the arguments they set."""
    try:
        yield
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        name, space, rest = str(error).partition(" ")
        sentence = f"{_FLAGS.get(name, name)}{space}{rest}"
        for name, flag in _FLAGS.items():
            if "_" in name:  # others are words, too
                # Names of files and columns may hold that of an argument.
                sentence = re.sub(rf"(?<![\w./-]){name}(?![\w./-])", flag, sentence)
        raise ValueError(sentence) from None
