"""Writes table.csv, table.md and table.png of the results in a folder."""

from __future__ import annotations

from pathlib import Path

from ptd_ext.train.methods.registry import ABLATION_METHODS
from ptd_ext.train.reproduce import plot
from ptd_ext.train.reproduce.csv_rows import ablation_csv, accuracy_csv
from ptd_ext.train.reproduce.results import Results, read_results
from ptd_ext.train.reproduce.tables import ablation_markdown, accuracy_markdown
from ptd_ext.utils.atomic_files import atomic_file, remove_leftovers, write_text

__all__ = ["report_ablation", "report_accuracy"]


def report_accuracy(table: Path) -> bool:
    """Print and write the accuracy tables of all data sets in `table`; false if it has none."""
    results = _read(table).where(parts=None)
    if not results:
        print(f"There are no results in {table} yet.")
        return False
    markdown, figure = accuracy_markdown(results), plot.accuracy_figure
    return _write(table, "Accuracy", markdown, accuracy_csv(results), figure, results)


def report_ablation(table: Path) -> bool:
    """Do the same for the ablation, in a folder of its own below `table`."""
    found = _read(table)
    studied = {(r.cell.data, r.cell.rate) for r in found if r.cell.parts is not None}
    # Runs of PTD without a given R belong to the accuracy table only; those of one matrix to both.
    results = Results(
        result
        for result in found
        if (result.cell.data, result.cell.rate) in studied
        and result.cell.method in ABLATION_METHODS
        and result.cell.entry.has_parts == (result.cell.parts is not None)
    )
    if not results:
        print(f"There are no results of an ablation in {table} yet.")
        return False
    markdown, figure = ablation_markdown(results), plot.ablation_figure
    folder = table / "ablation"
    return _write(folder, "Number of parts", markdown, ablation_csv(results), figure, results)


def _read(table: Path) -> Results:
    results, problems = read_results(table)
    for problem in problems:
        print(problem)
    return results


def _write(
    folder: Path, title: str, markdown: str, rows: str, figure: plot.Drawing, results: Results
) -> bool:
    print(f"\n{markdown}")
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    write_text(folder / "table.md", f"# {title}\n\n{markdown}")
    write_text(folder / "table.csv", rows)
    written = "table.md and table.csv"
    try:
        image = plot.png(figure(results))
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print(f"{error}; table.png was left out.")
    else:
        with atomic_file(folder / "table.png") as temporary:
            Path(temporary).write_bytes(image)
        written = "table.md, table.csv and table.png"
    print(f"Written to {folder}: {written}.")
    return True
