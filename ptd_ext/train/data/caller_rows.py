"""Which rows of the user's file or folder the samples are, so that findings can be joined to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["CallerRows"]


@dataclass(frozen=True)
class CallerRows:
    """The rows of the samples whose labels are judged.

    Attributes:
        train: row numbers of the training samples, int64 [N].
        validation: row numbers of the validation samples.
        test: row numbers of the test samples; None where their labels are not to be judged.
        test_labels: the labels that the test samples came with; None like `test`. They differ from
            the labels that testing compares with, if true labels are known.
        names: the ids of all rows; None where a row's number, or an image's file name, is its id.
    """

    train: Tensor
    validation: Tensor
    test: Tensor | None = None
    test_labels: Tensor | None = None
    names: NDArray[Any] | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits whose labels are judged."""
        return ("train", "validation") if self.test is None else ("train", "validation", "test")

    def of(self, split: str) -> Tensor:
        """The row numbers of a split."""
        rows: Tensor = getattr(self, split)
        return rows

    def order(self) -> NDArray[np.int64]:
        """Positions that put the samples of all splits, one after the other, in the file's order.

        Row numbers are those of a file with several parts, so that they are all different.
        """
        rows = torch.cat([self.of(split).cpu() for split in self.splits])
        return rows.argsort(stable=True).numpy()
