"""Takes the screenshots of the report: `python docs/images/screenshots.py [FASHION_MNIST_FOLDER]`.

The table is examples/data/penguins.csv; the pictures are 3,000 images of Fashion-MNIST, a fifth of
whose labels are made wrong. Needs Chromium and Pillow. The folder holds the official files, such as
those of Debian's package dataset-fashion-mnist.
"""

import io
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import ptd_ext
from ptd_ext.experiments.datasets import load

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "python_tests"))

from label_issues.report.report_browser import Browser  # noqa: E402

COLOURS = 96  # size of the palette, which keeps the files small
BY_ID = "id"  # neighbours by quality look alike
REVIEW = "document.getElementById('review-labels').scrollIntoView()"


def table_report(folder: Path) -> Path:
    """The page that the command line writes for the table of penguins."""
    out = folder / "penguins"
    table = ROOT / "examples" / "data" / "penguins.csv"
    command = ["labels", str(table), "--label", "species", "--out", str(out)]
    subprocess.run([sys.executable, "-m", "ptd_ext", *command], check=True)
    return out / "report.html"


def picture_report(folder: Path, data: str) -> Path:
    """The page of Fashion-MNIST."""
    clothes = load("fashion_mnist", root=data)
    images = np.asarray(clothes.train_inputs[:3000]).reshape(-1, 1, 28, 28)
    names = np.array(clothes.class_names)
    noise = ptd_ext.instance_dependent_noise(
        images.reshape(len(images), -1) / 255, clothes.train_labels[:3000], 0.2, random_state=1
    )
    found = ptd_ext.find_label_issues(images, names[noise.noisy_labels.numpy()])
    return found.report(folder / "clothes.html", title="Fashion-MNIST, 3,000 images")


def save(browser: Browser, name: str) -> None:
    """What the window shows, as a PNG with a palette."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "shot.png")
        browser.screenshot(path)
        picture = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(HERE / f"{name}.png", optimize=True)


def main(data: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        table, clothes = table_report(folder), picture_report(folder, data)
        browser = Browser(folder)
        try:
            browser.scheme("light")
            browser.open(table, 1200, 780)
            browser.run(REVIEW)
            save(browser, "report_table")
            browser.open(clothes, 1200, 800)
            browser.choose("#sort", BY_ID)
            browser.run(REVIEW)
            browser.press("j", "a", "r")
            save(browser, "report_light")
            browser.scheme("dark")
            browser.open(clothes, 1200, 800)
            browser.choose("#sort", BY_ID)
            browser.run(REVIEW)
            save(browser, "report_dark")
            browser.scheme("light")
            browser.open(clothes, 390, 844)
            browser.choose("#sort", BY_ID)
            browser.run(REVIEW)
            save(browser, "report_phone")
        finally:
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets")
