"""Presets: the settings of each data set and schedule, and how settings are layered.

The paper gives the networks, the number of parts comes from the authors' code, and the baselines'
figures from their reference implementations. "fast" shortens every schedule to minutes on a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptd_ext.data.read import kind_of
from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.engine.networks import networks_for
from ptd_ext.engine.settings.schedule import (
    COUNTING,
    IMAGE_SIZE,
    PRETRAINED_SIZE,
    SCHEDULE,
    other_stages,
    schedule_for,
)
from ptd_ext.experiments.datasets.registry import DATA_SETS, check_name, check_root
from ptd_ext.experiments.settings import ExperimentSettings

Layer = dict[str, Any]

_PAPER_SGD: Layer = {"optimiser": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}

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

_PRESETS: dict[str, Layer] = {"paper": _PAPER_SGD, "fast": _FAST}


def resolve(
    config: Layer, flags: Layer, *, samples: int | None = None, shape: Sequence[int] = ()
) -> ExperimentSettings:
    """Resolve all settings: defaults, then data set, preset, method, configuration file, flags.

    Methods with one matrix have one part, whatever is given.

    Args:
        config: settings of the configuration file. Without `dataset`, the kind of `data` decides.
        flags: settings of the flags.
        samples: the number of training samples, where the data are loaded already. With it the
            network and the fast preset suit user data.
        shape: the shape of one sample.
    """
    given = {**config, **flags}
    if given.get("data") and "dataset" not in given:
        given["dataset"] = kind_of(given["data"])
    chosen = ExperimentSettings(
        **{name: given[name] for name in ("dataset", "method", "preset") if name in given}
    )
    check_name(chosen.dataset)
    check_root(chosen.dataset, given.get("data"))
    dataset, method = DATA_SETS[chosen.dataset], METHODS.get(chosen.method)
    layers: tuple[Mapping[str, Any], ...] = (
        _PRESETS[chosen.preset],
        dataset.settings,
        dataset.fast if chosen.preset == "fast" else {},
        _own_layer(given, chosen, samples, shape),
        {} if method is None else method.defaults,
        given,
        {"n_parts": 1} if method is not None and method.one_matrix else {},
    )
    merged = {name: value for layer in layers for name, value in layer.items()}
    return ExperimentSettings(**merged)


def _own_layer(
    given: Layer, chosen: ExperimentSettings, samples: int | None, shape: Sequence[int]
) -> Layer:
    """Settings that suit the user's own data."""
    dataset = DATA_SETS[chosen.dataset]
    if not dataset.user_data:
        return {}
    layer: Layer = {}
    if "image_size" in dataset.options:
        layer["image_size"] = PRETRAINED_SIZE if given.get("network_weights") else IMAGE_SIZE
    if samples is None:
        return layer
    network = given.get("network", "auto")
    if network == "auto":
        network = layer["network"] = _own_network(given, shape)
    if chosen.preset == "fast":
        schedule = schedule_for(samples, network, given.get("epochs"))
        if any(name in given for name in SCHEDULE):
            # A given optimiser or learning rate replaces the whole schedule.
            schedule = {n: v for n, v in schedule.items() if n not in (*SCHEDULE, *COUNTING)}
        layer |= {**schedule, **other_stages(schedule["epochs"])}
    return layer


def _own_network(given: Layer, shape: Sequence[int]) -> str:
    if given.get("network_weights"):
        raise ValueError("network must be given together with network_weights; got auto.")
    found = networks_for(shape)
    if not found:
        raise ValueError(
            f"network must be given for images of {shape[1]} × {shape[2]} pixels: training from "
            "random weights takes hours and generalises badly. Set a smaller --image-size, such as "
            "32 or 64, or pretrained weights with --network and --network-weights, or train from "
            "random weights with --network alone."
        )
    return found[0]
