"""Presets: the settings of each data set and schedule, and how settings are layered.

The paper gives the networks, the number of parts comes from the authors' code, and the baselines'
figures from their reference implementations. "fast" shortens every schedule to minutes on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ptd_ext.data.read import kind_of
from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.engine.networks.registry import NETWORKS
from ptd_ext.engine.settings.schedule import (
    IMAGE_SIZE,
    PRETRAINED_SIZE,
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


def resolve(config: Layer, flags: Layer, *, suited: Layer | None = None) -> ExperimentSettings:
    """Resolve all settings: defaults, then data set, preset, method, configuration file, flags.

    Methods with one matrix have one part, whatever is given.

    Args:
        config: settings of the configuration file. Without `dataset`, the kind of `data` decides.
        flags: settings of the flags.
        suited: settings that suit user data, where they are loaded already.
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
    image_side = PRETRAINED_SIZE if given.get("network_weights") else IMAGE_SIZE
    layers: tuple[Mapping[str, Any], ...] = (
        _PRESETS[chosen.preset],
        dataset.settings,
        dataset.fast if chosen.preset == "fast" else {},
        {"image_size": image_side} if dataset.user_data and "image_size" in dataset.options else {},
        suited or {},
        {} if method is None else method.defaults,
        given,
        {"n_parts": 1} if method is not None and method.one_matrix else {},
    )
    merged = {name: value for layer in layers for name, value in layer.items()}
    return ExperimentSettings(**merged)


def default_text(name: str) -> str:
    """The default of a setting for its help: the value, or what it depends on."""
    default = ExperimentSettings.entries()[name].default
    causes = [
        cause
        for cause, layers in _layers().items()
        if any(layer.get(name, default) != default for layer in layers)
    ]
    if causes:
        return f"depends on {', '.join(causes)}"
    if isinstance(default, bool):
        return "on" if default else "off"
    values = default if isinstance(default, tuple) else (default,)
    return " ".join(f"{each:.3g}" if isinstance(each, float) else str(each) for each in values)


def _layers() -> dict[str, Iterable[Mapping[str, Any]]]:
    """The layers of `resolve` that replace defaults, by what they depend on."""
    sets = [layer for entry in DATA_SETS.values() for layer in (entry.settings, entry.fast)]
    suited = [{**schedule_for(1, name), **other_stages(1)} for name in NETWORKS]
    return {
        "preset": _PRESETS.values(),
        "data": [*sets, *suited, {"image_size": IMAGE_SIZE}],
        "method": [*(method.defaults for method in METHODS.values()), {"n_parts": 1}],
    }
