"""Defaults for the user's own data: networks, schedules and splits that suit their size and kind.

:class:`ptd_ext.PTDClassifier` and `ptd-ext train` take them from here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = [
    "COUNTING",
    "IMAGE_SIZE",
    "PRETRAINED_SIZE",
    "SCHEDULE",
    "networks_for",
    "other_stages",
    "schedule_for",
    "validation_share",
]

IMAGE_SIZE = 32  # pixels a side that image files are read at, unless told otherwise
PRETRAINED_SIZE = 224  # those that ImageNet's weights were trained for
# Settings of a schedule that go together.
SCHEDULE = ("optimiser", "lr", "weight_decay", "schedule", "milestones", "decay_from", "late_beta1")
# Settings that suit the weight decay of the schedule.
COUNTING = ("count_base", "count_rate")

_STEPS = 3000  # optimiser steps that small networks need
_EPOCHS = (10, 100)  # the least and the most
_BATCHES = (16, 512)
_LR = 1e-3  # for Adam
_LINEAR_LR = 5e-3  # the linear network is a convex problem, which allows larger steps
_DECAY_ROWS = 8.0  # weight decay times rows
_LEAST_DECAY = 1e-4
_MOST_DECAY = {"linear": 0.1, "mlp": 0.03}  # beyond, the weights of a perceptron fall to zero
# The weight decay keeps these networks from mistakes of their own, so that what they miss of
# held-out labels is noise, and it makes their posterior too even for anchors.
_SMALL_NETWORKS = {"count_base": "uniform", "count_rate": "validation"}
_VALIDATION = 200  # samples that model selection needs, if there are enough
_TINY_IMAGE = 12  # pixels a side that LeNet-5 needs; smaller images are taken as rows
_SMALL_IMAGE = 40  # pixels a side up to which LeNet-5 is used
_MIDDLE_IMAGE = 96  # pixels a side up to which training a ResNet-18 from scratch is worthwhile


def networks_for(shape: Sequence[int]) -> tuple[str, ...]:
    """The networks worth trying for samples of this shape, the simplest first.

    There is none for large images: training on them from random weights takes hours and does
    badly, so that a network must be named, or features of a pretrained one given.
    """
    if len(shape) == 1 or min(shape[1:]) < _TINY_IMAGE:
        return ("linear", "mlp")
    side = max(shape[1:])
    if side <= _SMALL_IMAGE:
        return ("lenet5",)
    return ("resnet18",) if side <= _MIDDLE_IMAGE else ()


def schedule_for(samples: int, network: str, epochs: int | None = None) -> dict[str, Any]:
    """Settings of a schedule that suits from a hundred to a million training samples."""
    batch = 2 ** round(math.log2(max(1, samples / 32)))
    batch = int(min(max(batch, _BATCHES[0]), _BATCHES[1]))
    if epochs is None:
        epochs = round(_STEPS * batch / max(1, samples))
        epochs = min(max(epochs, _EPOCHS[0]), _EPOCHS[1])
    return {
        "epochs": epochs,
        "warm_up_epochs": epochs,
        "revision_epochs": max(1, epochs // 3),
        "batch_size": batch,
        "optimiser": "adam",
        "lr": _LINEAR_LR if network == "linear" else _LR,
        "weight_decay": _weight_decay(samples, network),
        "schedule": "linear",
        "decay_from": 0.5,
        "late_beta1": 0.9,
        "select": "likelihood",
        **(_SMALL_NETWORKS if network in _MOST_DECAY else {}),
    }


def _weight_decay(samples: int, network: str) -> float:
    """Return a penalty for small networks that counts like so many rows, however many there are."""
    most = _MOST_DECAY.get(network, 0.0)
    return max(_LEAST_DECAY, min(most, _DECAY_ROWS / max(1, samples)))


def other_stages(epochs: int) -> dict[str, Any]:
    """Settings of the methods with other stages than PTD's, for a main stage of so many epochs."""
    return {
        "ramp_epochs": max(1, epochs // 10),
        "joint_epochs": epochs,
        "joint_soft_from": epochs // 2,
        "joint_average": max(1, epochs // 10),
        "joint_final_epochs": max(1, epochs // 2),
        "dmi_epochs": max(1, epochs // 3),
    }


def validation_share(samples: int) -> float:
    """The share of samples to hold out for model selection: 0.1, more where they are few."""
    return min(0.3, max(0.1, _VALIDATION / max(1, samples)))
