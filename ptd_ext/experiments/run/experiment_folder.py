"""The folder of an experiment: its name, and the check that its content belongs to it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ptd_ext.data.user_data import digest
from ptd_ext.engine.training.checkpoint import digest as digest_of
from ptd_ext.experiments.datasets.problem import Problem
from ptd_ext.experiments.settings import ExperimentSettings
from ptd_ext.experiments.toml import read_config
from ptd_ext.utils.bounded_files import read_json
from ptd_ext.utils.distributed import Ranks

CHECKSUMS = "sha256"  # key in result.json of the checksums of the other files of the run
# An experiment writes settings.toml first: without it, these files belong to something else.
_WRITTEN = ("checkpoint.pt", "metrics.jsonl", "model.safetensors", "result.json")


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
    return Path(ranks.agree(str(path)))


def check_folder(settings: ExperimentSettings, out: Path, resume: bool) -> None:
    """Raise unless the folder is free, or holds a run of these settings to continue."""
    kept = out / "settings.toml"
    if not kept.exists():
        for name in _WRITTEN:
            if (out / name).exists():
                raise FileExistsError(
                    f"{out} holds a {name}, but no settings.toml to identify its run; it would "
                    "be overwritten. Move it away, or give another --out."
                )
        return
    if not resume:
        raise FileExistsError(
            f"{out} holds a run already: continue it with --resume, or give another --out."
        )
    try:
        before = ExperimentSettings(**read_config(kept))
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(kept) in text else f"{kept}: {text}") from None
    if digest_of(before) != digest_of(settings):
        now = vars(settings)
        name = next(n for n in now if digest_of(before.replace(**{n: now[n]})) != digest_of(before))
        raise ValueError(
            f"{out} holds a run with other settings: {name} was {getattr(before, name)!r} and is "
            f"{now[name]!r}. Continue with those settings, or give another --out."
        )


def read_result(path: Path) -> dict[str, Any]:
    """The content of a result.json; raises ValueError if it is damaged or something else."""
    result = read_json(path)
    if not isinstance(result, dict):
        raise ValueError(f"{path} must hold the result of a run; got a {type(result).__name__}.")
    for name in ("test_accuracy", "test_accuracy_last"):
        value = result.get(name)
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(
                f"{path} must hold the result of a run, with a number {name}; got {value!r}."
            )
    return result


def read_finished(path: Path, problem: Problem) -> dict[str, Any]:
    """The result of a finished run; raises an error unless it was on these data."""
    try:
        result = read_result(path)
    except ValueError as error:
        raise ValueError(f"{error} Delete it, and --resume goes on from the checkpoint.") from None
    check_version(path, result)
    fingerprint = problem.fingerprint()
    if result.get("fingerprint") != fingerprint:
        raise ValueError(
            f"{path} is the result of a run on other data: their fingerprint was "
            f"{result.get('fingerprint')}, and that of the data now is {fingerprint}. Give the "
            "data of that run with --data, or another --out."
        )
    return result


def check_version(path: Path, result: dict[str, Any]) -> None:
    """Raise for the result of a version of ptd_ext whose runs are not read."""
    if not isinstance(result.get(CHECKSUMS), dict):
        raise ValueError(
            f"{path} is the result of an earlier version of ptd_ext, whose runs this one does not "
            "read. Train again in another folder."
        )


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of each file of a run, for its result."""
    return {name: digest(folder / name).hex() for name in names}


def check_file(path: Path, result: dict[str, Any]) -> Path:
    """The path; raises unless it is the file that was written with this result."""
    if digest(path).hex() != result[CHECKSUMS].get(path.name):
        raise ValueError(
            f"{path} is not the file that was written with the result.json beside it: it is "
            "damaged, edited or of another run. Restore all files of one run."
        )
    return path


def result_name(result: dict[str, Any], split: str) -> str:
    """The name of the test or validation split of a finished run, for tables."""
    kind = result.get(f"{split}_labels", "clean" if split == "test" else "noisy")
    return f"given-label {split}" if kind == "given" else f"{kind} {split}"
