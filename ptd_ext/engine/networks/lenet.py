"""LeNet-5 as the authors of PTD use it for MNIST."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["LeNet5"]

# Below it nothing is left for the second pooling.
SMALLEST = 12


class LeNet5(nn.Module):
    """Convolutions of 6 and 16 kernels of 5 × 5, then 120, 84 and C; the 84 are the representation.

    The first convolution pads by 2, so that 28 × 28 pixels become 16 · 5 · 5 values. Other sizes
    from 12 × 12 on give as many as they give.
    """

    def __init__(self, classes: int, inputs: torch.Size) -> None:
        super().__init__()
        channels, height, width = inputs
        if min(height, width) < SMALLEST:
            raise ValueError(
                f"lenet5 must get images of at least {SMALLEST} × {SMALLEST} pixels; "
                f"got {height} × {width}. For smaller ones there is mlp."
            )
        sides = [(side // 2 - 4) // 2 for side in (height, width)]
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * sides[0] * sides[1], 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The representation [N, 84] and the logits [N, C] of images."""
        # The maximum of ReLUs is the ReLU of the maximum: pooling first leaves a quarter of them.
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        representation = F.relu(self.fc2(x))
        return representation, self.fc(representation)
