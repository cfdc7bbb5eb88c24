"""Checkpoints: all that a run needs to go on as if nothing had happened."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from ptd_ext.train.settings import Settings, describe
from ptd_ext.whole_files import whole_file

__all__ = ["digest", "load", "rng_state", "save", "set_rng_state"]

_FORMAT = 1


def digest(settings: Settings, without: Collection[str] = ()) -> str:
    """The settings that decide a result, as one short word.

    Not those of the section "run", and not where the data lie: a run may go on elsewhere. That the
    data are the same is for :meth:`ptd_ext.train.problem.Problem.fingerprint` to say.
    """
    values = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if name != "data" and name not in without and describe(name)["section"] != "run"
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def save(path: Path, belongs_to: str, state: dict[str, Any]) -> None:
    """Write a checkpoint, which is there whole or not at all."""
    with whole_file(path) as temporary:
        torch.save({"format": _FORMAT, "belongs_to": belongs_to, **state}, temporary)


def load(path: Path, belongs_to: str) -> dict[str, Any]:
    """Read a checkpoint of the same settings and data, running no code of the file's."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} is damaged or no checkpoint of ptd_ext: {reason}") from None
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a checkpoint that this ptd_ext reads.")
    if state["belongs_to"] != belongs_to:
        raise ValueError(
            f"{path} belongs to a run with other settings or data; take another folder."
        )
    return state


def rng_state() -> dict[str, Any]:
    """Of the generators that layers such as dropout draw from."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_rng_state(state: dict[str, Any]) -> None:
    """Go back to a state of :func:`rng_state`."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
