"""Schedules that suit the size of user data.

:class:`ptd_ext.PTDClassifier` and `ptd-ext train` use them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ptd_ext.engine.networks.registry import NETWORKS, Network, networks_for

IMAGE_SIZE = 32  # default side in pixels of images that are read from files
PRETRAINED_SIZE = 224  # for networks with weights of ImageNet
# Settings of a schedule that belong together.
SCHEDULE = ("optimiser", "lr", "weight_decay", "schedule", "milestones", "decay_from", "late_beta1")
# Settings that depend on the weight decay of the schedule.
COUNTING = ("count_base", "count_rate")

_STEPS = 3000  # optimiser steps that small networks need
_EPOCHS = (10, 100)  # minimum and maximum
_BATCHES = (16, 512)
_MIN_DECAY = 1e-4
_DECAY_ROWS = 8.0  # weight decay times rows: the penalty weighs as much as 8 rows
# With weight decay, small networks hardly err by themselves: their errors on held-out labels are
# noise. Their posteriors are too flat for anchors.
_SMALL_NETWORKS = {"count_base": "uniform", "count_rate": "validation"}


def candidates(
    samples: int,
    shape: Sequence[int],
    network: str = "auto",
    epochs: int | None = None,
    *,
    advice: str = "Name a network.",
) -> dict[str, dict[str, Any]]:
    """The networks to try on user data, the simplest first, and the settings of their schedules.

    Args:
        samples: the number of training samples.
        shape: the shape of a sample.
        network: the name of the one network to try; "auto" for those that suit the shape.
        epochs: the epochs of each stage; None for as many as suit the number of samples.
        advice: the end of the error message for images on which no network is tried.
    """
    names = networks_for(shape) if network == "auto" else (network,)
    if not names:
        raise ValueError(
            f"network must be given for images of {shape[1]} × {shape[2]} pixels: training from "
            f"random weights takes hours and generalises badly. {advice}"
        )
    schedules = {name: schedule_for(samples, name, epochs) for name in names}
    return {name: {**each, **other_stages(each["epochs"])} for name, each in schedules.items()}


def schedule_for(samples: int, network: str, epochs: int | None = None) -> dict[str, Any]:
    """Settings of a schedule for a hundred to a million training samples."""
    batch = 2 ** round(math.log2(max(1, samples / 32)))
    batch = int(min(max(batch, _BATCHES[0]), _BATCHES[1]))
    if epochs is None:
        epochs = round(_STEPS * batch / max(1, samples))
        epochs = min(max(epochs, _EPOCHS[0]), _EPOCHS[1])
    entry = NETWORKS.get(network, Network)  # a function has the defaults
    return {
        "epochs": epochs,
        "warm_up_epochs": epochs,
        "revision_epochs": max(1, epochs // 3),
        "batch_size": batch,
        "optimiser": "adam",
        "lr": entry.lr,
        "weight_decay": max(_MIN_DECAY, min(entry.max_decay, _DECAY_ROWS / max(1, samples))),
        "schedule": "linear",
        "decay_from": 0.5,
        "late_beta1": 0.9,
        "select": "likelihood",
        **(_SMALL_NETWORKS if entry.max_decay else {}),
    }


def other_stages(epochs: int) -> dict[str, Any]:
    """Settings of stages that PTD does not have, given the epochs of its main stage."""
    return {
        "ramp_epochs": max(1, epochs // 10),
        "joint_epochs": epochs,
        "joint_soft_from": epochs // 2,
        "joint_average": max(1, epochs // 10),
        "joint_final_epochs": max(1, epochs // 2),
        "dmi_epochs": max(1, epochs // 3),
    }
