"""An experiment: training in a folder with its settings, metrics, checkpoints and results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from ptd_ext._C import build_info
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.config.toml import write_settings
from ptd_ext.train.data.problem import Problem, load_problem
from ptd_ext.train.engine.experiment_folder import check_folder, read_finished
from ptd_ext.train.engine.label_report import write_label_report
from ptd_ext.train.engine.logger import Log
from ptd_ext.train.engine.placement import Placement
from ptd_ext.train.engine.trained_model import MODEL, TRANSITION, part_transition, write_model
from ptd_ext.train.engine.trainer import Trainer
from ptd_ext.utils.atomic_files import write_text
from ptd_ext.utils.claimed_folders import claim
from ptd_ext.utils.threads import using

__all__ = ["train"]


def train(
    settings: Settings,
    out: Path,
    place: Placement,
    *,
    resume: bool = False,
    problem: Problem | None = None,
) -> dict[str, Any]:
    """Train in a folder; returns the content of its `result.json`. A finished one is not repeated.

    Args:
        settings: the settings of the experiment.
        out: its folder. With `resume` it may hold an experiment of the same settings.
        place: the device and the processes.
        resume: continue from the checkpoint in the folder, if there is one. The result of a
            finished experiment is returned if it was on the same data.
        problem: the data that the settings name, if they are loaded already.
    """
    check_folder(settings, out, resume)
    finished, ranks = out / "result.json", place.ranks
    problem = load_problem(settings) if problem is None else problem
    result = read_finished(finished, problem)
    if result is not None:
        return result
    with claim(out, ranks):
        if ranks.first:
            # Another process may have used the folder between the check above and the claim.
            check_folder(settings, out, resume)
        if (result := read_finished(finished, problem)) is None:
            result = _train(settings, out, place, resume, problem)
            if ranks.first:
                # The result is written last, so that everything else is there once it is.
                write_text(finished, json.dumps(result, indent=2) + "\n")
        ranks.wait()
    return result


def _train(
    settings: Settings, out: Path, place: Placement, resume: bool, problem: Problem
) -> dict[str, Any]:
    ranks = place.ranks
    log = Log(
        quiet=not ranks.first,
        progress=settings.progress,
        validation=problem.validation_name,
        test=problem.test_name,
    )
    trainer = Trainer(settings, problem, place.device, out=out, ranks=ranks, log=log)
    # Nothing is written before all checks have passed.
    if ranks.first:
        if not (out / "settings.toml").exists():
            write_settings(settings, out / "settings.toml")
        log.open(out, tensorboard=settings.tensorboard)
    log.say(_introduction(settings, problem, place))
    with using(settings.threads or trainer.worthwhile_threads()):
        try:
            found = trainer.train(resume=resume)
        finally:
            log.close()
        _write_results(trainer, settings, out)
    return {**_about(settings), **found, "fingerprint": trainer.fingerprint}


def _write_results(trainer: Trainer, settings: Settings, out: Path) -> None:
    """Write the best network as a state dict and for `load_run`, T(x), and the labels judged."""
    trainer.write_tensors("network.pt", trainer.best.network)
    if trainer.ranks.first:
        write_model(trainer, out / MODEL)
    estimate = trainer.outputs.transition
    if estimate is None:
        return
    write_label_report(trainer, out)
    if trainer.ranks.first:
        about = {"method": settings.method, "data": settings.dataset, "seed": settings.seed}
        part_transition(estimate, about).save(out / TRANSITION)


def _about(settings: Settings) -> dict[str, Any]:
    names = ("method", "seed", "preset", "network", "parts", "epochs")
    words = {"data": settings.dataset, **{name: getattr(settings, name) for name in names}}
    return {**words, "version": build_info()["version"], "torch": torch.__version__}


def _introduction(settings: Settings, problem: Problem, place: Placement) -> str:
    rate = problem.realised_rate
    wrong = "noise as it comes" if rate is None else f"{rate:.1%} of labels wrong"
    ranks = f", {place.ranks.size} processes" if place.ranks.size > 1 else ""
    return (
        f"{settings.method} on {problem.name}: {problem.train_size:,} training, "
        f"{len(problem.validation_labels):,} {problem.validation_name} and "
        f"{len(problem.test_labels):,} {problem.test_name} samples, {problem.classes} classes, "
        f"{wrong}; {settings.network}, epochs {settings.epochs}, batch size "
        f"{settings.batch_size}, "
        f"seed {settings.seed}, {place.device}{ranks}"
    )
