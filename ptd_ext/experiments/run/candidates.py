"""The settings of an experiment once its data are known: one for each network worth trying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptd_ext.engine.networks import networks_for
from ptd_ext.engine.settings.schedule import COUNTING, SCHEDULE
from ptd_ext.experiments.datasets.problem import Problem
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.settings import ExperimentSettings

OF_NETWORK = (*SCHEDULE, *COUNTING)  # settings that may be different for each network


def candidate_settings(given: dict[str, Any], problem: Problem) -> list[ExperimentSettings]:
    """Resolve the settings of each network to try, the simplest network first.

    There are several only for user data whose network is not named.

    Args:
        given: settings of the configuration file and the flags.
        problem: the data.
    """
    data = problem.data
    sizes: dict[str, Any] = {"samples": data.train_size, "shape": data.sample_shape}
    first = resolve(given, {}, **sizes)
    named = given.get("network", "auto") != "auto" or given.get("network_weights")
    names: tuple[str, ...] = (first.network,)
    if problem.is_user_data and data.embedding is None and not named:
        names = networks_for(data.sample_shape)
    return [resolve({**given, "network": name}, {}, **sizes) for name in names]


def common_settings(candidates: Sequence[ExperimentSettings]) -> dict[str, Any]:
    """The settings of an experiment that tries these candidates, for its file.

    The file leaves out the schedule where it depends on the network: a run with the settings of the
    file then chooses the same schedule for each network again.
    """
    common = dict(vars(candidates[0]))
    if len(candidates) > 1:
        common["network"] = "auto"
        if any(vars(each)[name] != common[name] for each in candidates for name in OF_NETWORK):
            common = {name: value for name, value in common.items() if name not in OF_NETWORK}
    return common
