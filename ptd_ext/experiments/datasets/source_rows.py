"""Which rows of a file or folder the samples are, so that findings can be joined to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.labels import join_ids


@dataclass(frozen=True)
class SourceRows:
    """The samples whose labels are judged, split by split.

    Attributes:
        inputs: the samples of each split: training, validation, and test where its labels came with
            the data and may be wrong.
        labels: class indices of the labels that they came with.
        rows: their row numbers, which are those of one file with several parts.
        ids: the ids of all rows; None where a row's number, or an image's file name, is its id.
        shown: all rows by their numbers, as the page shows them; None to show the inputs.
    """

    inputs: tuple[Inputs, ...]
    labels: tuple[Tensor, ...]
    rows: tuple[Tensor, ...]
    ids: NDArray[Any] | None = None
    shown: Any = None

    def order(self) -> NDArray[np.int64]:
        """Positions that put the samples of all splits, one after the other, in source order."""
        return torch.cat([rows.cpu() for rows in self.rows]).argsort(stable=True).numpy()

    def all_ids(self) -> NDArray[Any]:
        """The id of each row, in the order of the source."""
        found: list[NDArray[Any]] = []
        for inputs, rows in zip(self.inputs, self.rows, strict=True):
            numbers = rows.cpu().numpy()
            if isinstance(inputs.stored, ImageFiles):
                names = [inputs.stored.name(position) for position in inputs.where()]
                found.append(np.array(names, dtype=object))
            else:
                found.append(numbers if self.ids is None else self.ids[numbers])
        return join_ids(found)[self.order()]
