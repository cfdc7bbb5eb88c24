"""Standardises rows of numbers: every column to mean 0 and deviation 1."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["ColumnScale"]


@dataclass(frozen=True)
class ColumnScale:
    """Mean and deviation of every column, float32 [D]; constant columns have the deviation 1."""

    mean: Tensor
    std: Tensor

    @classmethod
    def fit(cls, rows: Tensor) -> ColumnScale:
        """The scale of rows [N, D]."""
        mean = rows.mean(0, dtype=torch.float64)
        # A pass in pieces, so that no float64 copy of all rows is made.
        squares = sum(((piece.double() - mean) ** 2).sum(0) for piece in rows.split(4096))
        std = (squares / len(rows)).sqrt().float()
        # Values that are equal but for rounding are as good as constant.
        constant = std <= torch.finfo(torch.float32).eps * mean.abs().float()
        return cls(mean.float(), torch.where(constant, torch.ones_like(std), std))

    def __call__(self, rows: Tensor) -> Tensor:
        """Standardised rows."""
        return (rows - self.mean) / self.std

    def undo(self, rows: Tensor) -> Tensor:
        """Rows as they came, up to rounding."""
        return rows.cpu() * self.std + self.mean
