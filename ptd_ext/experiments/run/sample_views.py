"""Samples of an experiment as the page shows them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np
import torch

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.experiments.datasets.source_rows import SourceRows
from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.label_issues.samples import png_of, show_rows

_PICTURE_SIDE = 128  # pixels at which image files are decoded for the page
_COLUMNS = 12  # shown of a row


def show_source(source: SourceRows) -> Callable[[int], Sample] | None:
    """Return a function that shows a row of the source; None for tokens, and without Pillow."""
    preprocessing = source.inputs[0].preprocessing
    images = preprocessing.kind == "image"
    if preprocessing.kind == "tokens" or (images and importlib.util.find_spec("PIL") is None):
        return None
    order, ends = source.order(), np.cumsum([len(inputs) for inputs in source.inputs])
    if source.shown is not None:
        numbers, show_row = torch.cat(source.rows).numpy()[order], show_rows(source.shown)
        return lambda row: show_row(int(numbers[row]))

    def show(row: int) -> Sample:
        position = int(order[row])
        number = int(np.searchsorted(ends, position, side="right"))
        inputs = source.inputs[number]
        position -= int(ends[number]) - len(inputs)
        if isinstance(inputs.stored, ImageFiles):
            smaller = inputs.stored.resized(min(_PICTURE_SIDE, inputs.stored.size))
            return Sample(png=png_of(smaller[[inputs.where()[position]]][0].numpy()))
        values = inputs.stored[position].cpu()
        if images:
            return Sample(png=png_of(values.numpy()))
        values = preprocessing.undo(values).tolist()[:_COLUMNS]
        return Sample(row={str(column): f"{value:.4g}" for column, value in enumerate(values)})

    return show
