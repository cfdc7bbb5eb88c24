"""A perceptron for rows and for small images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HIDDEN = 128


class MLP(nn.Module):
    """Two hidden layers with ReLU; the second one's values are the representation."""

    def __init__(self, n_classes: int, inputs: torch.Size) -> None:
        super().__init__()
        self.fc1 = nn.Linear(inputs.numel(), HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN)
        self.fc = nn.Linear(HIDDEN, n_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The representation [N, 128] and the logits [N, C] of rows or images."""
        x = F.relu(self.fc1(x.flatten(1)))
        representation = F.relu(self.fc2(x))
        return representation, self.fc(representation)
