"""Predictions for a whole split: logits and features, without gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.utils.distributed import Ranks

# Maximum batch size: large enough to use all cores, small enough for memory.
_ROWS, _NUMBERS = 1000, 1 << 24


@dataclass(frozen=True)
class Prediction:
    """Logits [N, C], and features [N, D]: [N, 0] unless they were asked for."""

    logits: Tensor
    features: Tensor


def predict(
    network: nn.Module,
    inputs: Inputs,
    device: torch.device,
    ranks: Ranks,
    *,
    features: bool = False,
    amp: torch.dtype | None = None,
) -> Prediction:
    """Predict every sample with the network in evaluation mode; ranks share the work."""
    return predict_all([(network, features)], inputs, device, ranks, amp=amp)[0]


@torch.no_grad()
def predict_all(
    networks: Sequence[tuple[nn.Module, bool]],
    inputs: Inputs,
    device: torch.device,
    ranks: Ranks,
    *,
    amp: torch.dtype | None = None,
) -> list[Prediction]:
    """Predict with several networks, each with or without features; a sample is fetched once."""
    before = [network.training for network, _ in networks]
    found: list[tuple[list[Tensor], list[Tensor]]] = [([], []) for _ in networks]
    mine = ranks.share(torch.arange(len(inputs), device=device))
    rows = max(1, min(_ROWS, _NUMBERS // max(1, inputs.sample_numbers)))
    for ids in mine.split(rows):
        batch = inputs.fetch(ids, device)
        for (network, features), (logits, representations) in zip(networks, found, strict=True):
            dtype = next(network.parameters()).dtype
            with torch.autocast(device.type, amp, enabled=amp is not None):
                given = batch.to(dtype) if batch.is_floating_point() else batch
                representation, z = network.eval()(given)
            logits.append(z.to(dtype))
            if features:
                representations.append(representation.to(dtype))
    for (network, _), training in zip(networks, before, strict=True):
        network.train(training)
    total, predictions = len(inputs), []
    for logits, representations in found:
        z = ranks.gather(torch.cat(logits), total)
        kept = ranks.gather(torch.cat(representations), total) if representations else None
        predictions.append(Prediction(z, z.new_empty(total, 0) if kept is None else kept))
    return predictions


def accuracy(posterior: Tensor, labels: Tensor) -> float:
    """Per cent of samples whose most probable class is the label."""
    return 100 * (posterior.argmax(-1) == labels).double().mean().item()
