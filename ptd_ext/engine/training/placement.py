"""Placement: the device, the processes, and what is kept on the device."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from ptd_ext.engine import networks
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.training import batch_norm
from ptd_ext.utils.chosen_device import chosen_device
from ptd_ext.utils.distributed import Ranks, join
from ptd_ext.utils.threads import check_threads


@dataclass(frozen=True)
class Placement:
    """The device, and this process among the ranks."""

    device: torch.device
    ranks: Ranks

    @classmethod
    def from_settings(cls, settings: Settings) -> Placement:
        """Choose the device and the ranks by the settings; rank i takes GPU i."""
        device = _device(settings.device)
        check_threads("threads", settings.threads)
        return cls(device, join(device.type))


def _device(name: str) -> torch.device:
    local = os.environ.get("LOCAL_RANK")
    if name in ("auto", "cuda") and local is not None and torch.cuda.is_available():
        name = f"cuda:{local}"
    device = chosen_device(name)
    if device.type != "cuda":
        return device
    if local is not None and device.index != int(local):
        raise ValueError(f"device must be cuda for several processes, one GPU each; got {name}.")
    torch.cuda.set_device(device)
    return device


def keeps_data(settings: Settings, data: TrainingData, device: torch.device) -> bool:
    """True if samples are kept on the device: on request, or if half its free memory is enough."""
    if settings.resident != "auto" or device.type != "cuda":
        return settings.resident != "no"
    free, _ = torch.cuda.mem_get_info(device)
    return data.bytes() <= free / 2


def build_network(
    settings: Settings, data: TrainingData, device: torch.device, ranks: Ranks, seed: int
) -> nn.Module:
    """The settings' network on the device, with weights drawn by the seed.

    Batch normalisation uses the batch of all processes that train the network together.
    """
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        network = networks.build(
            settings.network,
            data.n_classes,
            inputs=data.sample_shape,
            embedding=data.embedding,
            weights=settings.network_weights or None,
        )
    layout = torch.channels_last if settings.channels_last else torch.contiguous_format
    network = cast(Any, network).to(device, memory_format=layout)
    if ranks.size == 1:
        return network
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(network)
    return batch_norm.over_ranks(network)
