"""Presets: the settings of each data set and schedule, and how settings are layered.

The paper gives the networks, the number of parts comes from the authors' code, and the baselines'
figures from their reference implementations. "fast" shortens every schedule to minutes on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptd_ext.train.config.own_data import (
    COUNTING,
    IMAGE_SIZE,
    PRETRAINED_SIZE,
    SCHEDULE,
    networks_for,
    other_stages,
    schedule_for,
)
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.methods.registry import METHODS

__all__ = ["resolve"]

Layer = dict[str, Any]

_PAPER_SGD: Layer = {"optimiser": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}

# Settings by data set, under either preset.
_DATA: dict[str, Layer] = {
    "digits": {"network": "mlp"},
    "mnist": {"network": "lenet5", "parts": 10},
    "fashion_mnist": {"network": "resnet18", "parts": 10},
    "svhn": {"network": "resnet34", "parts": 10},
    "cifar10": {"network": "resnet34", "parts": 20, "disagreement_start": 20},
    "news": {"network": "news_conv", "parts": 10},
    "clothing1m": {
        "network": "resnet50",
        "noise": "none",
        "batch_size": 32,
        "lr": 1e-3,
        "weight_decay": 1e-3,
        "epochs": 10,
        "milestones": (5,),
        "warm_up_epochs": 5,
        "joint_epochs": 10,
        "joint_soft_from": 4,
        "joint_average": 5,
        "joint_final_epochs": 10,
        "dmi_epochs": 10,
    },
    # Labels of the user's own data stay as they are; _own_layer adds what depends on their size.
    "npz": {"network": "mlp", "noise": "none", "validation": 0.0},
    "image_folder": {"network": "lenet5", "noise": "none", "validation": 0.0},
}

_FAST: Layer = {
    **_PAPER_SGD,
    "epochs": 10,
    "milestones": (6, 9),
    "warm_up_epochs": 8,
    "revision_epochs": 4,
    "ramp_epochs": 3,
    "disagreement_start": 0,
    "disagreement_free_steps": 500,
    "joint_epochs": 8,
    "joint_soft_from": 4,
    "joint_average": 3,
    "joint_final_epochs": 6,
    "dmi_epochs": 4,
}

# Settings by data set that differ from _FAST.
_FAST_DATA: dict[str, Layer] = {
    "fashion_mnist": {"network": "lenet5"},
    "cifar10": {"disagreement_start": 0},
    "digits": {
        "epochs": 60,
        "milestones": (40, 50),
        "warm_up_epochs": 40,
        "revision_epochs": 20,
        "joint_epochs": 60,
        "joint_soft_from": 30,
        "joint_average": 10,
        "joint_final_epochs": 40,
        "ramp_epochs": 10,
        # Accuracy on 144 validation samples is too coarse to rank epochs; likelihood is not.
        "select": "likelihood",
    },
}

_PRESETS: dict[str, tuple[Layer, dict[str, Layer]]] = {
    "paper": (_PAPER_SGD, {}),
    "fast": (_FAST, _FAST_DATA),
}


def resolve(
    config: Layer, flags: Layer, *, samples: int | None = None, shape: Sequence[int] = ()
) -> Settings:
    """Resolve all settings: defaults, then data set, preset, method, configuration file, flags.

    Args:
        config: settings of the configuration file.
        flags: settings of the flags.
        samples: the number of training samples, where the data are loaded already. With it the
            network and the fast preset suit the user's own data, npz and image_folder.
        shape: the shape of one sample.
    """
    given = {**config, **flags}
    chosen = Settings(
        **{name: given[name] for name in ("dataset", "method", "preset") if name in given}
    )
    method = METHODS.get(chosen.method)
    preset, by_data = _PRESETS[chosen.preset]
    layers: tuple[Layer, ...] = (
        preset,
        _DATA.get(chosen.dataset, {}),
        by_data.get(chosen.dataset, {}),
        _own_layer(given, chosen, samples, shape),
        {} if method is None else dict(method.defaults),
        given,
    )
    merged: Layer = {}
    for layer in layers:
        merged.update(layer)
    if method is not None and method.one_matrix and merged["parts"] != 1:
        raise ValueError(
            f"parts must be 1 for {chosen.method}, which has one matrix; got {merged['parts']}."
        )
    return Settings(**merged)


def _own_layer(given: Layer, chosen: Settings, samples: int | None, shape: Sequence[int]) -> Layer:
    """Settings that suit the user's own data."""
    if chosen.dataset not in ("npz", "image_folder"):
        return {}
    layer: Layer = {}
    if chosen.dataset == "image_folder" and given.get("network_weights"):
        layer["image_size"] = PRETRAINED_SIZE
    elif chosen.dataset == "image_folder":
        layer["image_size"] = IMAGE_SIZE
    if samples is None:
        return layer
    network = given.get("network", "auto")
    if network == "auto":
        network = layer["network"] = _own_network(given, shape)
    if chosen.preset == "fast":
        schedule = schedule_for(samples, network, given.get("epochs"))
        if any(name in given for name in SCHEDULE):
            # An optimiser or a learning rate of the user's own belongs to a schedule of his own.
            theirs = (*SCHEDULE, *COUNTING)
            schedule = {n: value for n, value in schedule.items() if n not in theirs}
        layer |= {**schedule, **other_stages(schedule["epochs"])}
    return layer


def _own_network(given: Layer, shape: Sequence[int]) -> str:
    if given.get("network_weights"):
        raise ValueError("network must name the network that network_weights are of; got auto.")
    found = networks_for(shape)
    if not found:
        raise ValueError(
            f"The images have {shape[1]} × {shape[2]} pixels, on which no network is trained from "
            "random weights without being asked for: it would take hours and do badly. Give a "
            "smaller --image-size, such as 32 or 64, or pretrained weights with --network and "
            "--network-weights; or name a network with --network alone to train it all the same."
        )
    return found[0]
