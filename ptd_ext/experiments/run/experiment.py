"""An experiment: training in a folder with its settings, metrics, checkpoints and results."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from ptd_ext._C import build_info
from ptd_ext.engine.model.fit import fit
from ptd_ext.engine.model.fitted_model import FittedModel
from ptd_ext.engine.rows.labels import GivenLabels, array_of
from ptd_ext.engine.stage.evaluate import accuracy
from ptd_ext.engine.stage.logger import Log
from ptd_ext.engine.training.placement import Placement
from ptd_ext.experiments.datasets.problem import CleanReference, Problem, load_problem
from ptd_ext.experiments.run.candidates import common_settings
from ptd_ext.experiments.run.experiment_folder import (
    CHECKSUMS,
    check_folder,
    checksums,
    read_finished,
)
from ptd_ext.experiments.run.sample_views import show_source
from ptd_ext.experiments.run.trained_run import ISSUES, MODEL, REPORT, RESULT, SETTINGS, TABLE
from ptd_ext.experiments.settings import ExperimentSettings
from ptd_ext.experiments.toml import write_config
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.judging import judge_labels
from ptd_ext.transition.metrics import row_distance, rows_of_labels
from ptd_ext.utils.atomic_files import write_text
from ptd_ext.utils.claimed_folders import claim

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as NumPy and pandas write them


def train(
    settings: ExperimentSettings | Sequence[ExperimentSettings],
    out: Path,
    place: Placement,
    problem: Problem | None = None,
    *,
    resume: bool = False,
) -> dict[str, Any]:
    """Train in a folder; returns the content of its `result.json`. A finished one is not repeated.

    Args:
        settings: the settings of the experiment. Several differ in their network only, and those
            networks are kept that explain held-out labels best.
        out: the folder. With `resume` it may hold an experiment of the same settings.
        place: the device and the processes.
        problem: the data that the settings name, if they are loaded already.
        resume: continue from the checkpoint in the folder, if there is one. The result of a
            finished experiment is returned if it was on the same data.
    """
    candidates = [settings] if isinstance(settings, ExperimentSettings) else list(settings)
    problem = load_problem(candidates[0]) if problem is None else problem
    settings = ExperimentSettings(**common_settings(candidates))
    if (out / RESULT).exists():  # only read, so that the folder need not be writable
        check_folder(settings, out, resume)
        return read_finished(out / RESULT, problem)
    with claim(out, place.ranks):
        if place.ranks.first:
            check_folder(settings, out, resume)
        if (out / RESULT).exists():  # another process has just finished it
            result = read_finished(out / RESULT, problem)
        else:
            result = _train(settings, candidates, out, place, problem, resume)
        place.ranks.wait()
    return result


def class_values(names: Sequence[str]) -> NDArray[Any]:
    """The classes as labels: integers where all names are those of integers, else the names."""
    integers = all(_INTEGER.fullmatch(name) for name in names)
    return array_of([int(name) for name in names] if integers else names)


def _train(
    settings: ExperimentSettings,
    candidates: Sequence[ExperimentSettings],
    out: Path,
    place: Placement,
    problem: Problem,
    resume: bool,
) -> dict[str, Any]:
    first = place.ranks.first
    log = Log(
        quiet=not first,
        verbose=settings.verbose,
        progress=settings.progress,
        validation=problem.validation_name,
        test=problem.test_name,
    )

    def begin() -> None:
        """Write the settings, once all checks have passed."""
        if first and not (out / SETTINGS).exists():
            write_config(common_settings(candidates), out / SETTINGS)
        log.info(_introduction(candidates, problem, place))

    model = fit(
        problem.data,
        [each.for_training(problem.known_rate) for each in candidates],
        class_values(problem.data.class_names),
        place,
        out=out,
        resume=resume,
        log=log,
        observer=CleanReference(problem),
        begin=begin,
    )
    result = _result(settings, problem, model)
    found = _judge(problem, model, place, result) if model.has_transition else None
    if not first:
        return result
    model.to("cpu").save(out / MODEL)
    files = [SETTINGS, MODEL]
    if found is not None:
        found.to_csv(out / TABLE)
        found.save(out / ISSUES)
        if settings.report:
            title = f"Labels of {problem.name}, judged by {settings.method}"
            found.report(out / REPORT, title=title)
        log.info(str(found))
        files.append(ISSUES)
    result[CHECKSUMS] = checksums(out, files)
    # The result is written last, so that everything else is there once it is.
    write_text(out / RESULT, json.dumps(result, indent=2) + "\n")
    return result


def _judge(
    problem: Problem, model: FittedModel, place: Placement, result: dict[str, Any]
) -> LabelIssues:
    """Judge the labels of the source rows; ranks share the work."""
    source = problem.source
    codes = torch.cat([labels.cpu() for labels in source.labels]).numpy()
    return judge_labels(
        model,
        source.inputs,
        GivenLabels(codes, model.classes),
        order=source.order(),
        ids=source.all_ids(),
        facts={f"{problem.test_name} accuracy": f"{result['test_accuracy']:.1f}%"},
        sample=show_source(source),
        ranks=place.ranks,
    )


@torch.no_grad()
def _result(settings: ExperimentSettings, problem: Problem, model: FittedModel) -> dict[str, Any]:
    outcome = model.outcome
    assert outcome is not None
    test = outcome.best.observed["test_accuracy"]
    if len(model.members) > 1:
        probabilities = torch.from_numpy(model.predict_proba(problem.test))
        test = accuracy(probabilities, problem.test_labels)
    names = ("method", "seed", "preset", "network", "n_parts", "epochs")
    return {
        "data": settings.dataset,
        **{name: getattr(settings, name) for name in names},
        "networks": model.network_name,
        "version": build_info()["version"],
        "torch": torch.__version__,
        "rate": problem.asked_rate,
        "train_samples": problem.data.train_size,
        "test_accuracy": test,
        "test_accuracy_last": outcome.last.observed["test_accuracy"],
        "validation_accuracy": outcome.best.validation_accuracy,
        "chosen_epoch": outcome.best.epoch,
        "test_labels": "clean" if problem.clean_test else "given",
        "validation_labels": "noisy" if problem.noisy else "given",
        "realised_rate": problem.realised_rate,
        "approximation_error": _approximation_error(problem, model),
        "seconds": outcome.seconds,
        "fingerprint": problem.fingerprint(),
    }


def _approximation_error(problem: Problem, model: FittedModel) -> float | None:
    """The error of the mean T(x) of all networks, where the true rows are known."""
    if problem.noise_rows is None or problem.train_clean is None or not model.has_transition:
        return None
    found = []
    for member in model.members:
        weights, t = member.weights(problem.data.train), member.required_transition
        found.append(rows_of_labels(problem.train_clean, weights, t.parts, t.slack))
    return row_distance(problem.noise_rows, torch.stack(found).mean(0))


def _introduction(
    candidates: Sequence[ExperimentSettings], problem: Problem, place: Placement
) -> str:
    rate, settings = problem.realised_rate, candidates[0]
    wrong = "noise rate unknown" if rate is None else f"{rate:.1%} of labels wrong"
    ranks = f", {place.ranks.size} processes" if place.ranks.size > 1 else ""
    data, names = problem.data, " and ".join(each.network for each in candidates)
    return (
        f"{settings.method} on {problem.name}: {data.train_size:,} training, "
        f"{len(data.validation_labels):,} {problem.validation_name} and "
        f"{len(problem.test_labels):,} {problem.test_name} samples, {data.n_classes} classes, "
        f"{wrong}; {names}, epochs {settings.epochs}, batch size {settings.batch_size}, "
        f"seed {settings.seed}, {place.device}{ranks}"
    )
