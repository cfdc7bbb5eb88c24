"""Builds a network by its name, or by the name of a user's function."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from ptd_ext.train.networks.lenet import LeNet5
from ptd_ext.train.networks.linear import Linear
from ptd_ext.train.networks.mlp import MLP
from ptd_ext.train.networks.news_conv import NewsConv
from ptd_ext.train.networks.resnet import resnet18, resnet34, resnet50
from ptd_ext.train.networks.weights import load_weights

__all__ = ["NAMES", "build", "check"]

_ROW_NETWORKS: dict[str, Callable[[int, torch.Size], nn.Module]] = {"linear": Linear, "mlp": MLP}
_IMAGE_NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
}
NAMES = (*_ROW_NETWORKS, "lenet5", *_IMAGE_NETWORKS, "news_conv")


def build(
    name: str,
    classes: int,
    *,
    inputs: Sequence[int],
    embedding: Tensor | None = None,
    weights: Path | str | None = None,
) -> nn.Module:
    """A network with fresh weights, drawn from torch's generator, or with those of a file.

    Args:
        name: One of `NAMES`, or `package.module:function`. That is imported and called as
            `function(classes, inputs)`, and returns a module whose forward returns
            (representation, logits); `check` tells whether it does.
        classes: The number of logits.
        inputs: The shape of one sample: [channels, H, W], [D] or [L].
        embedding: float [V, D], the vectors of words, which `news_conv` needs.
        weights: A file with a state dict of the network. A last layer of another number of classes
            is left out, so that ImageNet's weights can be a start.
    """
    if not isinstance(classes, int) or classes < 2:
        raise ValueError(f"classes must be a whole number of at least 2; got {classes}.")
    inputs = torch.Size(inputs)
    if name != "news_conv" and embedding is not None and name in NAMES:
        raise ValueError(f"{name} takes no embedding: word vectors are for news_conv.")
    network = _create(name, classes, inputs, embedding)
    if weights is not None:
        load_weights(network, weights)
    return network


def _create(name: str, classes: int, inputs: torch.Size, embedding: Tensor | None) -> nn.Module:
    if ":" in name:
        return _from_function(name, classes, inputs)
    if name not in NAMES:
        raise ValueError(
            f"The network must be one of {', '.join(NAMES)}, or package.module:function; "
            f"got {name!r}."
        )
    if name in _ROW_NETWORKS:
        return _ROW_NETWORKS[name](classes, inputs)
    if name == "news_conv":
        if len(inputs) != 1:
            raise ValueError(f"news_conv must get tokens [L]; got samples {list(inputs)}.")
        if embedding is None:
            raise ValueError("news_conv needs embedding, the vectors of words [V, D]; got None.")
        return NewsConv(classes, embedding)
    if len(inputs) != 3:
        raise ValueError(f"{name} must get images [channels, H, W]; got samples {list(inputs)}.")
    if name == "lenet5":
        return LeNet5(classes, inputs)
    return _IMAGE_NETWORKS[name](classes, inputs[0])


def _from_function(name: str, classes: int, inputs: torch.Size) -> nn.Module:
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A module that is there and lacks one of its own imports is another matter.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(
            f"The network {name!r} must name a module that can be imported; there is no "
            f"{error.name}. Is its folder on PYTHONPATH?"
        ) from None
    except ValueError as error:
        raise ValueError(
            f"The network {name!r} must be package.module:function: {error}."
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ValueError(f"The network {name!r} must name a function of {module_name}.")
    network = function(classes, inputs)
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"{name}(classes, inputs) must return a torch.nn.Module; got {type(network).__name__}."
        )
    return network


def check(network: nn.Module, batch: Tensor, classes: int | None = None) -> int:
    """Raise for a network that does not return (representation [N, D], logits [N, C]).

    Args:
        network: Run once on the batch, in evaluation mode and without gradients.
        batch: Some samples, as training passes them.
        classes: C, if it is to be checked.

    Returns:
        D, the length of a representation.
    """
    kind = type(network).__name__
    before = {module: module.training for module in network.modules()}
    network.eval()
    try:
        with torch.no_grad():
            result = network(batch)
    finally:
        for module, training in before.items():
            module.training = training
    wanted = f"{kind}.forward must return (representation [N, D], logits [N, C])"
    if not isinstance(result, tuple) or len(result) != 2:
        got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
        raise TypeError(f"{wanted}; got {got}.")
    for name, part in zip(("representation", "logits"), result, strict=True):
        if not isinstance(part, Tensor):
            raise TypeError(f"{wanted}; the {name} is a {type(part).__name__}.")
        if part.dim() != 2 or len(part) != len(batch) or not part.is_floating_point():
            raise ValueError(
                f"{wanted}, floats; for a batch of {len(batch)} the {name} is {part.dtype} "
                f"{list(part.shape)}."
            )
    representation, logits = result
    if classes is not None and logits.shape[1] != classes:
        raise ValueError(f"{wanted} with C = {classes}; got logits {list(logits.shape)}.")
    return representation.shape[1]
