"""Frozen features of images, by a function or by a ResNet whose weights are in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ptd_ext.engine.networks import build
from ptd_ext.engine.networks.weights import load_weights, read_weights

_BATCH = 64
_IMAGENET_CLASSES = 1000


@torch.no_grad()
def extract_features(
    X: Any,  # noqa: N803
    extractor: Callable[[Tensor], Any] | str | os.PathLike[str],
) -> Tensor:
    """Features [N, D] of images [N, channels, height, width], a batch at a time."""
    # A data frame or a sparse matrix is nothing that torch takes.
    images = X if hasattr(X, "shape") else torch.as_tensor(X)
    if len(images.shape) != 4:
        raise ValueError(
            "feature_extractor takes images [N, channels, height, width]; X is "
            f"{list(images.shape)}. Leave it out for rows."
        )
    images = torch.as_tensor(images)
    function = extractor if callable(extractor) else _resnet(extractor)
    if isinstance(function, nn.Module):
        function.eval()
    found = []
    for batch in images.split(_BATCH):
        rows = function(batch.float() / 255 if batch.dtype == torch.uint8 else batch)
        rows = torch.as_tensor(rows)
        if rows.dim() != 2 or len(rows) != len(batch):
            raise ValueError(
                f"feature_extractor must return features [{len(batch)}, D] of a batch; got "
                f"{list(rows.shape)}."
            )
        if rows.is_complex():
            raise ValueError("feature_extractor must return real numbers; it returns complex ones.")
        found.append(rows.detach().cpu().float())
    return torch.cat(found)


def _resnet(path: str | os.PathLike[str]) -> Callable[[Tensor], Tensor]:
    """The representation of a ResNet-18, 34 or 50, recognised by the names of its weights."""
    names = set(read_weights(path))
    if "layer1.0.conv3.weight" in names:
        name = "resnet50"
    else:
        name = "resnet34" if "layer3.5.conv1.weight" in names else "resnet18"
    network = build(name, _IMAGENET_CLASSES, inputs=(3, 224, 224))
    load_weights(network, path)
    network.eval()
    return lambda batch: network(batch)[0]
