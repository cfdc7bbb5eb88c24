"""The folder that `ptd-ext labels` writes to: claimed first, and finished once its table is there.

The table (of labels, or of changes by decisions) is written last, and then the lock is removed. A
folder with a lock and without that table was left by a command that was killed, and is taken over;
any other folder that is not empty is left as it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptd_ext.label_issues.report.pictures import pictures_folder
from ptd_ext.utils.atomic_files import is_leftover
from ptd_ext.utils.claimed_folders import LOCK, claim

TABLE = "labels.csv"
REPORT = "report.html"
CHANGES = "changes.csv"
_PICTURES = pictures_folder(Path(REPORT)).name
_CLEANED = ("cleaned.csv", "cleaned.tsv", "cleaned.parquet", "cleaned.npz")


def cleaned_name(data: Path) -> str:
    """The name of the cleaned copy of a file or a folder."""
    endings = {".npy": ".npz"}  # rows and labels in one file
    ending = data.suffix.lower()
    return f"cleaned{'.csv' if data.is_dir() else endings.get(ending, ending)}"


def remove_unfinished(out: Path) -> None:
    """Remove results that a killed command has left in a folder which this process holds."""
    for name in (REPORT, *_CLEANED):
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / _PICTURES, ignore_errors=True)


@contextmanager
def results_folder(out: Path, data: Path, table: str = TABLE) -> Iterator[None]:
    """Hold the folder for this process, which may write its results there.

    Raises where the folder is in use, cannot be written to, holds anything but the leftovers of a
    command that was killed, or lies within the data or around them. `table` is written last.
    """
    folder, source = out.resolve(), data.resolve()
    within = source.is_dir() and folder.is_relative_to(source)
    if within or folder in source.parents:
        raise ValueError(
            f"--out must be a folder apart from the data, {data}; got {out}. Give another --out."
        )
    _check(out)  # before anything is written there
    with claim(out):
        _check(out)  # another process may have finished in the meantime
        try:
            yield
        finally:
            if (out / table).exists():
                (out / LOCK).unlink(missing_ok=True)


def _check(out: Path) -> None:
    if not out.is_dir():
        if out.exists():
            raise FileExistsError(f"{out} is a file, and must be a folder. Give another --out.")
        return
    names = set(os.listdir(out))
    if names & {TABLE, CHANGES}:
        raise FileExistsError(
            f"{out} holds results already; nothing is overwritten. Give another --out, or remove "
            "it."
        )
    others = {name for name in names if not is_leftover(name)} - {
        LOCK,
        REPORT,
        _PICTURES,
        *_CLEANED,
    }
    if names and (others or LOCK not in names):
        raise FileExistsError(
            f"{out} exists and is not empty; nothing is overwritten. Give another --out."
        )
