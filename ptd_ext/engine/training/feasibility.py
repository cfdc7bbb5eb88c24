"""A check that the network can train on every batch, before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def check_last_batch(
    network: nn.Module, one: Tensor, n_samples: int, batch_sizes: Iterable[int]
) -> None:
    """Raise if a batch of one sample is left that the network, such as a ResNet, cannot train on.

    The network runs in training mode on `one`, a batch of one sample.
    """
    if all(size > 1 and n_samples % size != 1 for size in batch_sizes):
        return
    try:
        with torch.no_grad(), torch.random.fork_rng([]):
            network.train()(one)
    except ValueError as error:
        raise ValueError(
            f"batch_size must not leave a batch of 1 of the {n_samples} training samples: "
            f"{type(network).__name__} cannot train on it ({error})."
        ) from None
