"""LeNet-5 as the authors of PTD use it for MNIST."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SMALLEST = 12  # image side in pixels; smaller images leave nothing for the second pooling


class LeNet5(nn.Module):
    """Convolutions with 6 and 16 kernels of 5 × 5, then layers of 120, 84 and C units.

    The 84 units are the representation. The first convolution pads by 2, so that 28 × 28 pixels
    become 16 · 5 · 5 values.
    """

    def __init__(self, n_classes: int, inputs: torch.Size) -> None:
        super().__init__()
        channels, height, width = inputs
        sides = [(side // 2 - 4) // 2 for side in (height, width)]
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * sides[0] * sides[1], 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc = nn.Linear(84, n_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The representation [N, 84] and the logits [N, C] of images."""
        # The maximum of ReLUs is the ReLU of the maximum: pooling first leaves a quarter of them.
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        representation = F.relu(self.fc2(x))
        return representation, self.fc(representation)
