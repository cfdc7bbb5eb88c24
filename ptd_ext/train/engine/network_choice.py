"""Chooses the network for the user's own rows: the simplest that predicts held-out labels well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ptd_ext.label_issues.chance import CLEARLY
from ptd_ext.train.config.own_data import networks_for
from ptd_ext.train.config.presets import resolve
from ptd_ext.train.config.toml import read_config
from ptd_ext.train.data.problem import Problem
from ptd_ext.train.engine.placement import Placement
from ptd_ext.train.engine.signals import Stopped
from ptd_ext.train.engine.trainer import Trainer
from ptd_ext.utils.threads import using

__all__ = ["with_network"]

_OWN = ("npz", "image_folder")


def with_network(
    given: dict[str, Any], problem: Problem, place: Placement, run: Path | None
) -> dict[str, Any]:
    """The given settings with a network, where several suit the data and none is named.

    Each is trained by cross entropy, as in a warm-up. A later one is taken if it predicts clearly
    more validation labels: of networks that do alike, the simplest memorises least. Likelihoods
    would not do, since cross entropy leaves a linear network no way to say that a label of a
    typical sample may be wrong.

    Args:
        given: settings of the configuration file and the flags.
        problem: the data.
        place: the device and the ranks; the first rank chooses for all.
        run: the folder of a run to continue, whose network is kept.
    """
    names = networks_for(problem.sample_shape) if problem.embedding is None else ()
    named = given.get("network", "auto") != "auto" or given.get("network_weights")
    if given.get("dataset") not in _OWN or named or len(names) < 2:
        return given
    if run is not None and (run / "settings.toml").is_file():
        return {**given, "network": read_config(run / "settings.toml").get("network", names[0])}
    best = ""
    if place.ranks.first:
        print(f"{' and '.join(names)} are tried; --network names one", flush=True)
        found = {name: _right({**given, "network": name}, problem, place) for name in names}
        best = names[0]
        for other in names[1:]:
            gain = found[other] - found[best]
            error = gain.std(correction=0).item() / len(gain) ** 0.5
            if gain.mean().item() > CLEARLY * error:
                best = other
        than = "more complex ones are not" if best == names[0] else "it is"
        print(f"{best} is taken: {than} clearly better on held-out labels", flush=True)
    return {**given, "network": place.ranks.word(best)}


@torch.no_grad()
def _right(given: dict[str, Any], problem: Problem, place: Placement) -> Tensor:
    """Whether each validation label is predicted, as 0 and 1."""
    settings = resolve(
        {**given, "method": "CE", "against": ""},
        {},
        samples=problem.train_size,
        shape=problem.sample_shape,
    )
    settings = settings.replace(epochs=settings.warm_up_epochs, select="likelihood")
    trainer = Trainer(settings, problem, place.device)
    try:
        with torch.enable_grad(), using(settings.threads or trainer.worthwhile_threads()):
            trainer.train()
    except Stopped:  # nothing has been saved that a message could offer to continue
        raise KeyboardInterrupt from None
    logits = trainer.predict(trainer.best_network(), "validation").logits
    labels = trainer.problem.validation_labels
    return (logits.argmax(1) == labels).double().cpu()
