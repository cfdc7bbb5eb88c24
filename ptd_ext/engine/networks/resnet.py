"""Residual networks: 18 and 34 layers for images of about 32 × 32, 50 for ImageNet's size.

Modules and parameters have torchvision's names, so that state dicts of its ResNets load.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


def resnet18(n_classes: int, channels: int) -> ResNet:
    """18 layers with a stem for small images; 512 representations."""
    return ResNet(BasicBlock, (2, 2, 2, 2), n_classes, channels, small=True)


def resnet34(n_classes: int, channels: int) -> ResNet:
    """34 layers with a stem for small images; 512 representations."""
    return ResNet(BasicBlock, (3, 4, 6, 3), n_classes, channels, small=True)


def resnet50(n_classes: int, channels: int) -> ResNet:
    """50 layers with ImageNet's stem; 2048 representations."""
    return ResNet(Bottleneck, (3, 4, 6, 3), n_classes, channels, small=False)


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """ReLU of the two paths' sum."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(x)) + shortcut, inplace=True)


class Bottleneck(nn.Module):
    """A 3 × 3 convolution of a quarter of the channels beside a shortcut."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * self.expansion
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        # The stride is here and not in the first convolution, as in torchvision.
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.downsample = _shortcut(channels, out, stride)

    def forward(self, x: Tensor) -> Tensor:
        """ReLU of the two paths' sum."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.relu(self.bn2(self.conv2(x)), inplace=True)
        return F.relu(self.bn3(self.conv3(x)) + shortcut, inplace=True)


class ResNet(nn.Module):
    """A stem and four groups of blocks; the average over the pixels is the representation.

    A small network has a stem of 3 × 3 that keeps the size; ImageNet's divides it by 4.
    """

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, int, int, int],  # blocks per group
        n_classes: int,
        channels: int,
        small: bool,
    ) -> None:
        super().__init__()
        if small:
            self.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, stride=2, padding=1)
        before = 64
        for number, depth in enumerate(depths):
            width = 64 << number
            blocks = []
            for position in range(depth):
                stride = 2 if number and position == 0 else 1
                blocks.append(block(before, width, stride))
                before = width * block.expansion
            setattr(self, f"layer{number + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(before, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The representation [N, D] and the logits [N, C] of images."""
        x = self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        representation = x.mean((2, 3))
        return representation, self.fc(representation)


def _shortcut(channels: int, out: int, stride: int) -> nn.Sequential | None:
    """A 1 × 1 convolution where the block changes the shape."""
    if stride == 1 and channels == out:
        return None
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
