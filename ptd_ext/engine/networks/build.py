"""Builds a network by its name, or by the name of a user's function, and checks its outputs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from ptd_ext.engine.networks.registry import NETWORKS, check_name
from ptd_ext.engine.networks.weights import load_weights


def build(
    name: str,
    n_classes: int,
    *,
    inputs: Sequence[int],
    embedding: Tensor | None = None,
    weights: Path | str | None = None,
) -> nn.Module:
    """A network with initial weights from torch's generator, or with those of a file.

    Args:
        name: a name in `NETWORKS`, or `package.module:function`. The function is imported and
            called as `function(n_classes, inputs)`, and returns a module whose forward returns
            (representation, logits), see :func:`check`.
        n_classes: the number of logits.
        inputs: the shape of one sample: [channels, H, W], [D] or [L].
        embedding: word vectors, float [V, D], for networks that take tokens.
        weights: a file with a state dict of the network. A last layer for another number of
            classes is left out, so that weights of ImageNet can be the start.
    """
    check_name(name)
    inputs = torch.Size(inputs)
    if name in NETWORKS:
        NETWORKS[name].check(name, inputs, embedding)
        network = NETWORKS[name].make(n_classes, inputs, embedding)
    else:
        network = _from_function(name, n_classes, inputs)
    if weights is not None:
        load_weights(network, weights)
    return network


def _from_function(name: str, n_classes: int, inputs: torch.Size) -> nn.Module:
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # An existing module that fails to import another one raises its own error.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(
            f"network must name a module that can be imported; got {name!r}, and there is no "
            f"module {error.name}. Is its folder on PYTHONPATH?"
        ) from None
    except ValueError as error:
        raise ValueError(
            f"network must be package.module:function; got {name!r}: {error}."
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ValueError(f"network must name a function of {module_name}; got {name!r}.")
    network = function(n_classes, inputs)
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"{name}(n_classes, inputs) must return a torch.nn.Module; "
            f"got {type(network).__name__}."
        )
    return network


def check(network: nn.Module, batch: Tensor, n_classes: int | None = None) -> int:
    """Raise an error for a network that does not return (representation [N, D], logits [N, C]).

    Args:
        network: run once on the batch, in evaluation mode and without gradients.
        batch: some samples, as training passes them.
        n_classes: C, or None to accept any.

    Returns:
        D, the length of a representation.
    """
    kind = type(network).__name__
    training = network.training
    with torch.no_grad():
        result = network.eval()(batch)
    network.train(training)
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
    if n_classes is not None and logits.shape[1] != n_classes:
        raise ValueError(f"{wanted} with C = {n_classes}; got logits {list(logits.shape)}.")
    return representation.shape[1]
