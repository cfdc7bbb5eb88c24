"""What the page shows of the samples of an experiment."""

import dataclasses
import io

import numpy as np
import pytest
import torch

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.experiments.datasets.source_rows import SourceRows
from ptd_ext.experiments.run.sample_views import show_source


def source_of(stored, preprocessing):
    """Five samples: 3, 0, 4 to train on, 1, 2 held out."""
    rows = torch.tensor([3, 0, 4]), torch.tensor([1, 2])
    inputs = tuple(Inputs(stored, where, preprocessing) for where in rows)
    labels = tuple(torch.zeros(len(where), dtype=torch.int64) for where in rows)
    return SourceRows(inputs, labels, rows)


def test_rows_are_shown_as_they_came():
    table = 100 + np.arange(5 * 14.0).reshape(5, 14)
    preprocessing, stored = Preprocessing.fit(table)
    show = show_source(source_of(stored, preprocessing))
    for row in range(5):
        shown = show(row).row
        assert list(shown) == [str(column) for column in range(12)]
        assert [float(value) for value in shown.values()] == table[row][:12].tolist()


def test_columns_of_a_table_are_shown_by_their_names_and_values():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"colour": list("rgbrg"), "size": range(10, 15)})
    preprocessing, stored = Preprocessing.fit(frame)
    source = dataclasses.replace(source_of(stored, preprocessing), shown=frame)
    for some, numbers in ((source, range(5)), (without_validation(source), (0, 3, 4))):
        show = show_source(some)
        for row, number in enumerate(numbers):
            assert show(row).row == {"colour": "rgbrg"[number], "size": str(10 + number)}


def without_validation(source):
    """The three training samples alone."""
    return SourceRows(source.inputs[:1], source.labels[:1], source.rows[:1], shown=source.shown)


def test_images_are_shown_by_their_pixels():
    image = pytest.importorskip("PIL.Image")
    images = (50 * torch.arange(5, dtype=torch.uint8)).view(5, 1, 1, 1).expand(5, 3, 4, 4)
    preprocessing, stored = Preprocessing.fit(images)
    show = show_source(source_of(stored.contiguous(), preprocessing))
    for row in range(5):
        pixels = np.asarray(image.open(io.BytesIO(show(row).png)))
        assert set(pixels.flatten().tolist()) == {50 * row}


def test_image_files_are_read_when_they_are_shown(tmp_path):
    image = pytest.importorskip("PIL.Image")
    names = [f"{row}.png" for row in range(5)]
    for row, name in enumerate(names):
        image.new("RGB", (300, 300), (50 * row, 0, 0)).save(tmp_path / name)
    files = ImageFiles(tmp_path, names, 200)
    preprocessing = Preprocessing.for_images([3, 200, 200], None, None, as_bytes=True, files=True)
    show = show_source(source_of(files, preprocessing))
    for row in range(5):
        shown = image.open(io.BytesIO(show(row).png)).convert("RGB")
        assert max(shown.size) <= 128
        assert shown.getpixel((5, 5)) == (50 * row, 0, 0)


def test_tokens_are_not_shown():
    preprocessing = Preprocessing("tokens", torch.Size([3]), 3, words=6)
    assert show_source(source_of(torch.zeros(5, 3).long(), preprocessing)) is None
