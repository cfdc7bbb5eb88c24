"""The settings of an experiment once its data are known: one for each network worth trying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptd_ext.engine.settings.schedule import COUNTING, SCHEDULE, candidates
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
    chosen, network = resolve(given, {}), given.get("network", "auto")
    if not problem.is_user_data:
        return [chosen]
    if given.get("network_weights") and network == "auto":
        raise ValueError("network must be given together with network_weights; got auto.")
    found = candidates(
        problem.data.train_size,
        problem.data.sample_shape,
        network,
        given.get("epochs"),
        advice="Set a smaller --image-size, such as 32 or 64, or pretrained weights with --network "
        "and --network-weights, or train from random weights with --network alone.",
    )
    # A given optimiser or learning rate replaces the whole schedule.
    dropped = OF_NETWORK if any(name in given for name in SCHEDULE) else ()
    resolved = []
    for name, schedule in found.items():
        suited = {n: value for n, value in schedule.items() if n not in dropped}
        suited = suited if chosen.preset == "fast" else {}
        resolved.append(resolve({**given, "network": name}, {}, suited=suited))
    return resolved


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
