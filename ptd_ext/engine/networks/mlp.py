"""A perceptron for rows and for small images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["MLP"]

HIDDEN = 128


class MLP(nn.Module):
    """Two hidden layers with ReLU; the second one's values are the representation."""

    def __init__(self, classes: int, inputs: torch.Size, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.fc1 = nn.Linear(inputs.numel(), hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The representation [N, hidden] and the logits [N, C] of rows or images."""
        x = F.relu(self.fc1(x.flatten(1)))
        representation = F.relu(self.fc2(x))
        return representation, self.fc(representation)
