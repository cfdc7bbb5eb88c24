"""Checkpoints: all that a run needs to go on as if nothing had happened."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import torch

from ptd_ext.train.settings import Settings, describe
from ptd_ext.whole_files import whole_file

__all__ = ["digest", "load", "rng_state", "save", "set_rng_state"]

_FORMAT = 1

# What may differ between a run and its continuation: where it runs and what it shows.
_FREE = {"progress", "tensorboard", "checkpoint_steps", "warm_up_cache", "resident", "data_root"}


def digest(settings: Settings, without: set[str] | None = None, sections: Any = None) -> str:
    """The settings that decide a result, as one short word."""
    skipped = _FREE if without is None else _FREE | without
    values = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if name not in skipped and (sections is None or describe(name)["section"] in sections)
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def save(path: Path, settings: Settings, state: dict[str, Any]) -> None:
    """Write a checkpoint, which is there whole or not at all."""
    with whole_file(path) as temporary:
        torch.save({"format": _FORMAT, "settings": digest(settings), **state}, temporary)


def load(path: Path, settings: Settings) -> dict[str, Any]:
    """Read a checkpoint of the same settings, running no code of the file's."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} is damaged or no checkpoint of ptd_ext: {reason}") from None
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a checkpoint that this ptd_ext reads.")
    if state["settings"] != digest(settings):
        raise ValueError(
            f"{path} belongs to a run with other settings, kept in {path.parent}/settings.toml: "
            "continue with those, or take another folder."
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
