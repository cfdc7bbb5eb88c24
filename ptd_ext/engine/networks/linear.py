"""A linear classifier, for tables and embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    """One layer; the values of a row are its own representation."""

    def __init__(self, n_classes: int, inputs: torch.Size) -> None:
        super().__init__()
        self.fc = nn.Linear(inputs.numel(), n_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The representation [N, D] and the logits [N, C] of rows or images."""
        x = x.flatten(1)
        return x, self.fc(x)
