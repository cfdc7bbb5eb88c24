"""Predictions for a whole split: logits and features, without gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.utils.distributed import Ranks

_ROWS, _NUMBERS = (
    1000,
    1 << 24,
)  # maximum batch size: large enough to use all cores, small enough for memory


@dataclass(frozen=True)
class Prediction:
    """Logits [N, C], and features [N, D]: [N, 0] unless they were asked for."""

    logits: Tensor
    features: Tensor


@torch.no_grad()
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
    training, dtype = network.training, next(network.parameters()).dtype
    network.eval()
    mine = ranks.share(torch.arange(len(inputs), device=device))
    logits, representations = [], []
    rows = max(1, min(_ROWS, _NUMBERS // max(1, inputs.sample_numbers)))
    for ids in mine.split(rows):
        with torch.autocast(device.type, amp, enabled=amp is not None):
            batch = inputs.fetch(ids, device)
            representation, z = network(batch.to(dtype) if batch.is_floating_point() else batch)
        logits.append(z.to(dtype))
        if features:
            representations.append(representation.to(dtype))
    network.train(training)
    total = len(inputs)
    z = ranks.gather(torch.cat(logits), total)
    if not features:
        return Prediction(z, z.new_empty(total, 0))
    return Prediction(z, ranks.gather(torch.cat(representations), total))


def accuracy(posterior: Tensor, labels: Tensor) -> float:
    """Per cent of samples whose most probable class is the label."""
    return 100 * (posterior.argmax(-1) == labels).double().mean().item()
