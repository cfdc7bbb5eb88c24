"""The first hour of somebody who has data and no time: every kind of data at the first try.

Only the public commands and functions are used, with their defaults.
"""

import csv
import datetime

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")
pytest.importorskip("jinja2")

import ptd_ext
from ptd_ext.cli import main

pytestmark = pytest.mark.slow

ROWS = 150
WRONG = range(4, ROWS, 7)
SPECIES = ("Adelie penguin", "Gentoo penguin")


def write_table(path):
    """Missing values, a date, an id, a boolean, a constant, a category, text and mixed types."""
    generator = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        names = ("id", "date", "width", "depth", "tagged", "country", "island", "comment", "size")
        writer.writerow((*names, "species"))
        for row in range(ROWS):
            kind = row % 2
            label = SPECIES[kind != (row in WRONG)]
            day = datetime.date(2024, 1, 1) + datetime.timedelta(days=int(generator.integers(300)))
            width = "" if row % 11 == 0 else f"{generator.normal() + 5 * kind:.3f}"
            depth = f"{generator.normal() - 5 * kind:.3f}"
            island = ("", "Dream", "Biscoe")[generator.integers(3)]
            comment = f"found {('near the shore', 'on the hill')[kind]} by day {row % 9}"
            size = ("large", 3, "small", 4.5)[generator.integers(4)]
            tagged = bool(generator.integers(2))
            values = (f"P{row:04}", day, width, depth, tagged, "AQ", island, comment, size, label)
            writer.writerow(values)
    return path


def flagged(path):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {n for n, row in enumerate(rows) if row["is_label_issue"] == "True"}, rows


def assert_found(found):
    assert len(found & set(WRONG)) >= 0.8 * len(WRONG)
    assert len(found) <= 1.5 * len(WRONG)


def test_a_csv_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "data.csv")
    main(["labels", "data.csv", "--label", "species"])
    printed = capsys.readouterr().out
    for column in ("id", "date", "width", "tagged", "country", "island", "comment", "size"):
        assert column in printed  # a line on what was done with it
    found, rows = flagged(tmp_path / "data-labels" / "labels.csv")
    assert_found(found)
    assert {row["suggested_label"] for row in rows} == set(SPECIES)
    page = (tmp_path / "data-labels" / "report.html").read_text()
    assert SPECIES[0] in page
    main(["train", "data.csv", "--label", "species", "--epochs", "5"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 40
    assert "labels that are probably wrong" in lines[-1]


def test_texts():
    words = ("the ship sails over the sea", "the train stops at the station")
    texts = [f"{words[row % 2]} on day {row % 9}" for row in range(ROWS)]
    labels = ["travel by " + ("boat", "rail")[(row % 2) != (row in WRONG)] for row in range(ROWS)]
    found = ptd_ext.find_label_issues(texts, labels)
    assert_found(set(np.flatnonzero(found.is_label_issue)))


def test_a_folder_of_images(tmp_path, monkeypatch, capsys):
    image = pytest.importorskip("PIL.Image")
    generator = np.random.default_rng(0)
    for row in range(ROWS):
        kind = row % 2
        folder = tmp_path / "photos" / SPECIES[kind != (row in WRONG)]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 90, (24, 20, 3), dtype=np.uint8)
        pixels[:12] += np.uint8(120 * kind)
        image.fromarray(pixels).save(folder / f"{row:04}.png")
    monkeypatch.chdir(tmp_path)
    main(["labels", "photos", "--image-size", "12"])
    assert "--encoder timm:NAME or torchvision:NAME" in capsys.readouterr().out
    rows = flagged(tmp_path / "photos-labels" / "labels.csv")[1]
    found = {int(row["id"][-8:-4]) for row in rows if row["is_label_issue"] == "True"}
    assert_found(found)


def test_a_notebook(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    write_table(tmp_path / "data.csv")
    cells = [
        "import pandas as pd\nimport ptd_ext\ntable = pd.read_csv('data.csv', index_col='id')",
        "found = ptd_ext.find_label_issues(table.drop(columns='species'), table['species'])",
        "found",
        "found.plot();",
        "found.table.head()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    resources = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources=resources
    ).execute()
    outputs = [[kind for each in cell.outputs for kind in each.get("data", {})]
               for cell in notebook.cells]  # fmt: skip
    assert outputs[1] == []  # no progress bar without a terminal
    assert "text/html" in outputs[2]
    assert "image/png" in outputs[3]
    assert "text/html" in outputs[4]
    shown = notebook.cells[2].outputs[0]["data"]
    assert shown["text/plain"].count("\n") == 0
    assert SPECIES[0] in shown["text/html"]
