"""Checkpoints: everything that is needed to continue to the same bits."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from ptd_ext.engine.settings.settings import Settings
from ptd_ext.utils.atomic_files import atomic_file
from ptd_ext.utils.bounded_files import reading

_FORMAT = 5
_MARK = b"\nptd_ext sha256 "
_INSTEAD = "Restore a copy of it, or delete it to start again."


def digest(settings: Settings, without: Collection[str] = ()) -> str:
    """A hash of the settings that the result depends on.

    The section "run" and the path of an experiment's data are left out: a run may continue on
    another machine.
    """
    entries = settings.entries()
    values = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if name not in (*without, "data") and entries[name].section != "run"
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def save(path: Path, belongs_to: str, state: dict[str, Any]) -> None:
    """Write a checkpoint atomically.

    A checksum follows the archive, where `torch.load` does not look. The archive is made in memory:
    torch aborts the process if the disk is full when it closes an archive.
    """
    archive = io.BytesIO()
    torch.save({"format": _FORMAT, "belongs_to": belongs_to, **state}, archive)
    contents = archive.getbuffer()
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        file.write(contents)
        file.write(_MARK + _checksum(contents))


def load(path: Path, belongs_to: str, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read a checkpoint of the same settings and data, without running code from it."""
    contents, _, checksum = path.read_bytes().rpartition(_MARK)
    if checksum != _checksum(contents):
        raise ValueError(
            f"{path} is damaged, or not a checkpoint of ptd_ext: it does not end with the checksum "
            f"of its contents. {_INSTEAD}"
        )
    with reading(path, "a checkpoint of ptd_ext"):
        state = torch.load(io.BytesIO(contents), map_location=device, weights_only=True)
    if state["format"] != _FORMAT:
        raise ValueError(
            f"{path} was written by another version of ptd_ext. Delete it to start again, or "
            "continue with that version."
        )
    if state["belongs_to"] != belongs_to:
        raise ValueError(
            f"{path} belongs to a run with other settings or data. Choose another folder."
        )
    return state


def _checksum(contents: bytes | memoryview) -> bytes:
    return hashlib.sha256(contents).hexdigest().encode()


def rng_state() -> dict[str, Any]:
    """Return the state of the generators that layers such as dropout draw from."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore a state of :func:`rng_state`."""
    torch.set_rng_state(state["cpu"].cpu())  # the checkpoint may be on a GPU
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
