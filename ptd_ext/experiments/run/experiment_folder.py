"""The folder of an experiment: its name, and the check that its content belongs to it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ptd_ext.train.config.settings import Settings
from ptd_ext.train.config.toml import read_config
from ptd_ext.train.data.problem import Problem
from ptd_ext.train.engine.checkpoint import digest
from ptd_ext.utils.bounded_files import read_json
from ptd_ext.utils.distributed import Ranks

__all__ = ["check_folder", "new_folder", "read_finished", "result_name"]

# An experiment writes settings.toml first: without it, these files belong to something else.
_WRITTEN = ("checkpoint.pt", "metrics.jsonl", "network.pt", "result.json")


def new_folder(name: str, ranks: Ranks, root: Path = Path("runs")) -> Path:
    """Make runs/NAME, with the first free number appended if need be; the same on all ranks."""
    path, number = root / name, 1
    while ranks.first:
        try:
            path.mkdir(parents=True)
            break
        except FileExistsError:
            number += 1
            path = root / f"{name}-{number}"
    return Path(ranks.word(str(path)))


def check_folder(settings: Settings, out: Path, resume: bool) -> None:
    """Raise unless the folder is free, or holds a run of these settings to continue."""
    kept = out / "settings.toml"
    if not kept.exists():
        for name in _WRITTEN:
            if (out / name).exists():
                raise FileExistsError(
                    f"{out} holds a {name}, but no settings.toml that says whose it is: it would "
                    "be overwritten. Move it away, or give another --out."
                )
        return
    if not resume:
        raise FileExistsError(
            f"{out} holds a run already: continue it with --resume, or give another --out."
        )
    try:
        before = Settings(**read_config(kept))
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(kept) in text else f"{kept}: {text}") from None
    if digest(before) != digest(settings):
        now = vars(settings)
        name = next(n for n in now if digest(before.replace(**{n: now[n]})) != digest(before))
        raise ValueError(
            f"{out} holds a run with other settings: {name} was {getattr(before, name)!r} and is "
            f"{now[name]!r}. Continue with those settings, or give another --out."
        )


def read_finished(path: Path, problem: Problem) -> dict[str, Any] | None:
    """The result of a finished run on these data; None if there is none yet."""
    if not path.exists():
        return None
    again = "Delete it, and --resume goes on from the checkpoint."
    try:
        result = read_json(path)
    except ValueError as error:
        raise ValueError(f"{error} {again}") from None
    if not isinstance(result, dict):
        raise ValueError(
            f"{path} must hold the result of a run; it holds a {type(result).__name__}. {again}"
        )
    for name in ("test_accuracy", "test_accuracy_last"):
        value = result.get(name)
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(
                f"{path} must hold the result of a run, with a number {name}; got {value!r}. "
                f"{again}"
            )
    fingerprint = problem.fingerprint()
    if result.get("fingerprint") != fingerprint:
        raise ValueError(
            f"{path} is the result of a run on other data: their fingerprint was "
            f"{result.get('fingerprint')}, and that of the data now is {fingerprint}. Give the "
            "data of that run with --data, or another --out."
        )
    return result


def result_name(result: dict[str, Any], split: str) -> str:
    """The name of the test or validation split of a finished run, for tables."""
    kind = result.get(f"{split}_labels", "clean" if split == "test" else "noisy")
    return f"given-label {split}" if kind == "given" else f"{kind} {split}"
