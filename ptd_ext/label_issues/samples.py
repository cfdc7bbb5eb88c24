"""Pictures, text or table rows for the report."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from ptd_ext.engine.rows.columns import is_frame
from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.label_issues.report.sample import Sample

_COLUMNS = 50  # shown of a row
_LARGEST = 12  # values shown of a sparse row
_SMALLEST_SIDE = 96  # pixels of a picture on the page


def show_rows(X: Any) -> ShownRows:  # noqa: N803
    """Return a function that shows a row: a picture of an image, else its first values."""
    if hasattr(X, "iloc") and not is_frame(X):
        X = X.to_numpy()  # noqa: N806  # a column of pandas takes numbers for names of its index
    return ShownRows(X)


@dataclass(frozen=True)
class ShownRows:
    """A function from the position of a row to what the page shows; can be pickled.

    Attributes:
        rows: the rows, which the page also compares columns of.
    """

    rows: Any

    def __call__(self, row: int) -> Sample:
        """What the page shows of a row."""
        return _show(self.rows, row)


def _show(X: Any, row: int) -> Sample:  # noqa: N803
    item = X[row] if isinstance(X, (Dataset, ImageFiles)) else None
    if isinstance(item, (tuple, list)):
        item = item[0]
    if item is None and getattr(X, "ndim", 0) == 4:
        item = X[row]
    if item is not None and np.ndim(item) == 3:
        return Sample(png=png_of(np.asarray(torch.as_tensor(item))))
    if isinstance(item, str):
        return Sample(text=item)
    if item is not None:
        return Sample(row=row_text(np.asarray(item)[None], 0))
    strings = _only_text(X)
    if strings is not None:
        return Sample(text=str(strings[row]))
    return Sample(row=row_text(X, row))


def _only_text(X: Any) -> Any:  # noqa: N803
    """Return the rows themselves if they are strings."""
    if is_frame(X) or hasattr(X, "tocsr") or isinstance(X, torch.Tensor):
        return None
    return X if len(X) and isinstance(X[0], str) else None


def row_text(X: Any, row: int) -> dict[str, str]:  # noqa: N803
    """The first values of a row by column name, for a page."""
    if is_frame(X):
        return {str(name): str(X[name].to_numpy()[row]) for name in list(X.columns)[:_COLUMNS]}
    values = X[row].toarray().ravel() if hasattr(X, "tocsr") else np.asarray(X[row]).ravel()
    if hasattr(X, "tocsr"):  # the largest values describe such a row better than its first zeros
        largest = np.argsort(-np.abs(values), kind="stable")[:_LARGEST]
        return {str(column): f"{values[column]:.4g}" for column in largest if values[column]}
    return {str(column): f"{value:.4g}" for column, value in enumerate(values[:_COLUMNS])}


def png_of(image: np.ndarray[Any, Any]) -> bytes:
    """Encode [channels, height, width] as PNG; floats are scaled to their range."""
    from PIL import Image

    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        low, high = float(pixels.min()), float(pixels.max())
        pixels = (255 * (pixels - low) / max(high - low, 1e-12)).astype(np.uint8)
    pixels = pixels[:3] if len(pixels) >= 3 else pixels[:1].repeat(3, 0)
    picture = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    times = -(-_SMALLEST_SIDE // max(1, min(picture.size)))
    if times > 1:
        size = (picture.width * times, picture.height * times)
        picture = picture.resize(size, Image.Resampling.NEAREST)
    stream = io.BytesIO()
    picture.save(stream, "PNG", optimize=True)
    return stream.getvalue()
