"""A run with a folder of its own: settings, metrics, checkpoints, and what was learned."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ptd_ext._C import build_info
from ptd_ext.part_transition import PartTransition
from ptd_ext.train.config import write_settings
from ptd_ext.train.findings import write_findings
from ptd_ext.train.log import Log
from ptd_ext.train.problem import Problem, load_problem
from ptd_ext.train.ranks import Ranks, join
from ptd_ext.train.run import Run
from ptd_ext.train.settings import Settings
from ptd_ext.whole_files import whole_file, write_text

__all__ = ["Place", "new_folder", "train"]


@dataclass(frozen=True)
class Place:
    """Where a run happens: the device, and this process among the ranks."""

    device: torch.device
    ranks: Ranks

    @classmethod
    def of(cls, settings: Settings) -> Place:
        """As the settings say; a rank takes the GPU of its number."""
        name = settings.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cuda" and "LOCAL_RANK" in os.environ:
            name = f"cuda:{os.environ['LOCAL_RANK']}"
        try:
            device = torch.device(name)
        except RuntimeError:
            raise ValueError(f"device must be auto, cpu, cuda or cuda:1; got {name!r}.") from None
        if device.type == "cuda":
            if not torch.cuda.is_available():
                raise ValueError(f"device is {name}, but torch finds no GPU; take cpu or auto.")
            torch.cuda.set_device(device)
        if settings.threads:
            torch.set_num_threads(settings.threads)
        return cls(device, join(device.type))


def new_folder(name: str, root: Path = Path("runs")) -> Path:
    """runs/NAME, or with the first free number behind it."""
    path, number = root / name, 1
    while path.exists():
        number += 1
        path = root / f"{name}-{number}"
    return path


def train(
    settings: Settings,
    out: Path,
    place: Place,
    *,
    resume: bool = False,
    problem: Problem | None = None,
) -> dict[str, Any]:
    """Train in a folder; returns what its `result.json` holds. A finished run is not repeated."""
    kept, finished, first = out / "settings.toml", out / "result.json", place.ranks.first
    if kept.exists() and not resume:
        raise FileExistsError(
            f"{out} holds a run already: continue it with --resume, or give another --out."
        )
    if resume and finished.exists():
        return json.loads(finished.read_text(encoding="utf-8"))
    if problem is None:
        problem = load_problem(settings)
    # Only now, so that a mistake in the settings leaves nothing behind.
    place.ranks.wait()
    if first and not kept.exists():
        out.mkdir(parents=True, exist_ok=True)
        write_settings(settings, kept)
    place.ranks.wait()
    log = Log(
        out if first else None,
        quiet=not first,
        progress=settings.progress,
        tensorboard=settings.tensorboard,
    )
    log.say(_introduction(settings, problem, place))
    run = Run(settings, problem, place.device, out=out, ranks=place.ranks, log=log)
    result = {**_about(settings), **run.go(resume=resume)}
    if "parts" in run.kept:
        write_findings(run, out / "labels.csv")
    if first:
        _keep(run, settings, out)
        # Last: where there is a result, everything else is there too.
        write_text(finished, json.dumps(result, indent=2) + "\n")
    place.ranks.wait()
    log.close()
    return result


def _keep(run: Run, settings: Settings, out: Path) -> None:
    """The chosen network as a state dict, and the learned T(x)."""
    with whole_file(out / "network.pt") as temporary:
        torch.save(run.chosen["network"], temporary)
    if "parts" in run.kept:
        about = {"method": settings.method, "data": settings.data, "seed": settings.seed}
        basis, slack = run.kept.get("basis"), run.kept.get("slack")
        learned = PartTransition(run.kept["parts"], basis, slack, about=about)
        learned.save(out / "transition.safetensors")


def _about(settings: Settings) -> dict[str, Any]:
    names = ("method", "data", "rate", "seed", "preset", "network", "parts", "epochs")
    words = {name: getattr(settings, name) for name in names}
    return {**words, "version": build_info()["version"], "torch": torch.__version__}


def _introduction(settings: Settings, problem: Problem, place: Place) -> str:
    rate = problem.realised_rate
    wrong = "noise as it comes" if rate is None else f"{rate:.1%} of labels wrong"
    ranks = f", {place.ranks.size} processes" if place.ranks.size > 1 else ""
    return (
        f"{settings.method} on {problem.name}: {problem.train_size:,} training, "
        f"{len(problem.validation_labels):,} noisy validation and {len(problem.test_labels):,} "
        f"clean test samples, {problem.classes} classes, {wrong}; {settings.network}, "
        f"seed {settings.seed}, {place.device}{ranks}"
    )
