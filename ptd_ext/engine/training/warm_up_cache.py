"""A cache of warmed-up networks: methods with a transition matrix have the same warm-up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.state import BestModel, StageOutputs, to_state
from ptd_ext.engine.training import checkpoint
from ptd_ext.utils.atomic_files import remove_leftovers

# Settings of the main stage, on which a warm-up does not depend, and those of the warm-up.
_MAIN = {"method", "epochs"}
_WARM_UP = {"warm_up_epochs", "pred_probs_epochs"}


class CachedWarmUp(NamedTuple):
    """A warm-up, with the records of its epochs: curves do not depend on which run made it."""

    outputs: StageOutputs
    best: BestModel
    records: list[dict[str, Any]]


class WarmUpCache:
    """A folder of files, each named by the settings and the data that it came from."""

    def __init__(self, settings: Settings, fingerprint: str) -> None:
        later = {
            name
            for name, entry in settings.entries().items()
            if entry.section in ("transition", "baselines") and name not in _WARM_UP
        }
        self._word = f"{checkpoint.digest(settings, _MAIN | later)}-{fingerprint}"
        folder = settings.warm_up_cache
        self.path = Path(folder) / f"{self._word}.pt" if folder else None

    def open(self) -> None:
        """Make the folder now, so that an error comes before the warm-up and not after it."""
        if self.path is None:
            return
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(
                f"warm_up_cache must be a folder, or one that can be made; got {folder}: {reason}."
            ) from None
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise ValueError(f"warm_up_cache must be a folder to write to; got {folder}.")
        remove_leftovers(folder)

    def read(self, device: torch.device) -> CachedWarmUp | None:
        """An earlier warm-up; None if there is none."""
        if self.path is None or not self.path.exists():
            return None
        state = checkpoint.load(self.path, self._word, device)
        outputs, best = StageOutputs.from_state(state["outputs"]), state["best"]
        return CachedWarmUp(outputs, BestModel.from_state(best), state["records"])

    def write(self, outputs: StageOutputs, best: BestModel, records: list[dict[str, Any]]) -> None:
        """Leave a warm-up to later experiments."""
        if self.path is not None:
            state = {"outputs": to_state(outputs), "best": to_state(best), "records": records}
            checkpoint.save(self.path, self._word, state)
