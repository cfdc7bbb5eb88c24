"""Draws the figures of docs/gallery.md from the examples: `python docs/images/make_gallery.py`."""

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

import ptd_ext

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
OUT = HERE / "gallery"
COLOURS = 64  # size of the palette, which keeps the files small


def run(script: str, *arguments: object) -> str:
    """The output of an example."""
    command = [sys.executable, EXAMPLES / script, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def keep(picture: Image.Image, name: str) -> None:
    """Write a picture with a palette."""
    picture = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(OUT / f"{name}.png", optimize=True)


def keep_figure(figure: Figure, name: str) -> None:
    stream = io.BytesIO()
    figure.savefig(stream, dpi=80)
    keep(Image.open(stream), name)


def accuracies(text: str) -> Figure:
    """Bars of the percentages that an example prints."""
    found = re.findall(r"^(\S.*?)\s+([\d.]+)%$", text, re.MULTILINE)
    figure = Figure(figsize=(6, 2), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh([name for name, _ in found], [float(value) for _, value in found])
    axes.bar_label(bars, fmt="%.1f %%", padding=3)
    axes.set_xlim(0, 100)
    axes.set_xlabel("per cent")
    axes.invert_yaxis()
    return figure


def main() -> None:
    OUT.mkdir(exist_ok=True)
    table = pd.read_csv(EXAMPLES / "data" / "penguins.csv", index_col="id")
    found = ptd_ext.find_label_issues(table.drop(columns="species"), table["species"])
    keep_figure(found.plot()[0].figure, "start")
    keep_figure(accuracies(run("drop_in_loss.py")), "drop_in_loss")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run("which_labels_are_wrong.py", folder / "doubtful.png")
        keep(Image.open(folder / "doubtful.png"), "which_labels_are_wrong")
        run("estimate_transition.py", folder)
        keep(Image.open(folder / "transition.png"), "estimate_transition")
        keep(Image.open(folder / "parts.png"), "parts")
        run("own_data.py", folder / "own")
        issues = ptd_ext.TrainedRun.load(folder / "own" / "run").label_issues
        keep_figure(issues.plot()[0].figure, "own_data")


if __name__ == "__main__":
    main()
