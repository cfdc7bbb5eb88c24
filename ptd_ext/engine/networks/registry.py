"""The registry of networks. A new network is one entry of `NETWORKS`, and nothing else.

The help, the docs, the check of shapes and the candidates for user data are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ptd_ext.engine.networks.lenet import SMALLEST, LeNet5
from ptd_ext.engine.networks.linear import Linear
from ptd_ext.engine.networks.mlp import MLP
from ptd_ext.engine.networks.news_conv import NewsConv
from ptd_ext.engine.networks.resnet import resnet18, resnet34, resnet50


@dataclass(frozen=True)
class Network:
    """The entry of a network; its name is the key."""

    # Makes the network for a number of classes, the shape of a sample and word vectors.
    make: Callable[[int, torch.Size, Tensor | None], nn.Module]
    # Its samples: images [channels, H, W], or tokens [L], for which it needs word vectors.
    takes: Literal["anything", "images", "tokens"]
    help: str = ""  # one line for the docs
    smallest: int = 1  # minimum image side in pixels
    # On user data it is tried on rows of numbers if `rows`, and on images whose larger side is
    # above the first and up to the second of `image_sides`. The schedule has this learning rate of
    # Adam and this maximum of the weight decay, for small networks.
    rows: bool = False
    image_sides: tuple[int, int] = (0, 0)
    lr: float = 1e-3
    max_decay: float = 0.0

    def suits(self, shape: Sequence[int]) -> bool:
        """True if it is worth training on user samples of this shape."""
        if len(shape) == 1 or min(shape[1:]) < SMALLEST:
            return self.rows
        low, high = self.image_sides
        return low < max(shape[1:]) <= high

    def check(self, name: str, inputs: Sequence[int], embedding: Tensor | None) -> None:
        """Raise ValueError for samples that it does not take."""
        found = list(inputs)
        if self.takes != "tokens" and embedding is not None:
            raise ValueError(f"{name} takes no embedding: word vectors are for tokens.")
        if self.takes == "tokens":
            if len(found) != 1:
                raise ValueError(f"{name} must get tokens [L]; got samples {found}.")
            if embedding is None:
                raise ValueError(f"{name} needs embedding, word vectors [V, D]; got None.")
        if self.takes == "images":
            if len(found) != 3:
                raise ValueError(f"{name} must get images [channels, H, W]; got samples {found}.")
            if min(found[1:]) < self.smallest:
                raise ValueError(
                    f"{name} must get images of at least {self.smallest} × {self.smallest} pixels; "
                    f"got {found[1]} × {found[2]}. Use mlp for smaller images."
                )


def _news_conv(n_classes: int, inputs: torch.Size, embedding: Tensor | None) -> nn.Module:
    assert embedding is not None  # Network.check
    return NewsConv(n_classes, embedding)


# The simplest first: this is the order in which networks are tried.
NETWORKS: dict[str, Network] = {
    "linear": Network(
        lambda n_classes, inputs, _: Linear(n_classes, inputs),
        "anything",
        "one layer",
        rows=True,
        lr=5e-3,  # a convex problem, which allows larger steps
        max_decay=0.1,
    ),
    "mlp": Network(
        lambda n_classes, inputs, _: MLP(n_classes, inputs),
        "anything",
        "perceptron with two hidden layers of 128",
        rows=True,
        max_decay=0.03,  # with more, its weights fall to zero
    ),
    "lenet5": Network(
        lambda n_classes, inputs, _: LeNet5(n_classes, inputs),
        "images",
        "LeNet-5, as the authors of PTD use it for MNIST",
        smallest=SMALLEST,
        image_sides=(0, 40),
    ),
    "resnet18": Network(
        lambda n_classes, inputs, _: resnet18(n_classes, inputs[0]),
        "images",
        "ResNet-18 with a stem for images of about 32 × 32",
        image_sides=(40, 96),  # training it on larger images from random weights takes hours
    ),
    "resnet34": Network(
        lambda n_classes, inputs, _: resnet34(n_classes, inputs[0]),
        "images",
        "ResNet-34 with the same stem",
    ),
    "resnet50": Network(
        lambda n_classes, inputs, _: resnet50(n_classes, inputs[0]),
        "images",
        "ResNet-50 with the stem for ImageNet",
    ),
    "news_conv": Network(
        _news_conv, "tokens", "word vectors, three 1-D convolutions and a linear layer"
    ),
}


def networks_for(shape: Sequence[int]) -> tuple[str, ...]:
    """The networks worth trying on user samples of this shape, the simplest first.

    There is none for large images: training on them from random weights takes hours and generalises
    badly, so that the user must name a network, or pass features of a pretrained one.
    """
    return tuple(name for name, network in NETWORKS.items() if network.suits(shape))


def check_name(name: object, *, other: Sequence[str] = ()) -> None:
    """Raise ValueError unless this names a network, a function, or one of the other names."""
    known = (*other, *NETWORKS)
    if not isinstance(name, str) or (name not in known and ":" not in name):
        raise ValueError(
            f"network must be one of {', '.join(known)}, or package.module:function; got {name!r}."
        )
