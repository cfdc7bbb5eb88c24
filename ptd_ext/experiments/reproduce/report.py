"""Writes table.csv, table.md and table.png of the results in a folder."""

from __future__ import annotations

import fcntl
from pathlib import Path

from ptd_ext.experiments.reproduce import plot
from ptd_ext.experiments.reproduce.csv_rows import ablation_csv, accuracy_csv
from ptd_ext.experiments.reproduce.results import Results, read_results
from ptd_ext.experiments.reproduce.tables import ablation_markdown, accuracy_markdown
from ptd_ext.utils.atomic_files import atomic_file, remove_leftovers, write_text
from ptd_ext.utils.claimed_folders import LOCK


def report(table: Path, *, ablation: bool = False) -> bool:
    """Print and write the tables of the results in `table`; returns whether there are any.

    The accuracy tables of all data sets are written to `table`, those of the ablation to
    `table`/ablation.
    """
    if table.is_dir():
        with (table / LOCK).open("a") as lock:
            # If several processes share a table, the last to finish writes the results of all.
            fcntl.flock(lock, fcntl.LOCK_EX)
            results, problems = read_results(table)
            print("".join(f"{problem}\n" for problem in problems), end="")
            results = _ablation(results) if ablation else results.where(n_parts=None)
            if results:
                _write(table, results, ablation)
                return True
    print(f"There are no results{' of an ablation' if ablation else ''} in {table} yet.")
    return False


def _ablation(results: Results) -> Results:
    """The results of the ablation; it shares methods without parts with the accuracy tables."""
    studied = {(r.cell.data, r.cell.rate) for r in results if r.cell.n_parts is not None}
    return Results(
        result
        for result in results
        if (result.cell.data, result.cell.rate) in studied
        and result.cell.entry.ablation
        and result.cell.entry.has_parts == (result.cell.n_parts is not None)
    )


def _write(table: Path, results: Results, ablation: bool) -> None:
    title, folder = ("Number of parts", table / "ablation") if ablation else ("Accuracy", table)
    markdown = ablation_markdown(results) if ablation else accuracy_markdown(results)
    print(f"\n{markdown}")
    folder.mkdir(exist_ok=True)
    remove_leftovers(folder)
    write_text(folder / "table.md", f"# {title}\n\n{markdown}")
    write_text(folder / "table.csv", ablation_csv(results) if ablation else accuracy_csv(results))
    written = "table.md and table.csv"
    draw = plot.ablation_figure if ablation else plot.accuracy_figure
    try:
        image = plot.png(draw(results))
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print(f"{error}; table.png was left out.")
    else:
        with atomic_file(folder / "table.png") as temporary:
            Path(temporary).write_bytes(image)
        written = "table.md, table.csv and table.png"
    print(f"Written to {folder}: {written}.")
