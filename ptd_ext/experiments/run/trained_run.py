"""TrainedRun: a finished run of `ptd-ext train` as a model that predicts, with its findings."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.engine.model.fitted_model import FittedModel
from ptd_ext.engine.model.model_file import OwnNetwork
from ptd_ext.experiments.run.experiment_folder import (
    CHECKSUMS,
    check_file,
    check_version,
    checksums,
    read_result,
)
from ptd_ext.experiments.settings import ExperimentSettings
from ptd_ext.experiments.toml import read_config
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.utils.atomic_files import write_text
from ptd_ext.utils.bounded_files import shortened

SETTINGS, RESULT, MODEL = "settings.toml", "result.json", "model.safetensors"
TABLE, ISSUES, REPORT = "labels.csv", "labels.safetensors", "report.html"


@dataclass(frozen=True, repr=False)
class TrainedRun:
    """A finished run of `ptd-ext train`, on the CPU.

    Rows and images are given as they were to training: they are preprocessed here.

    Attributes:
        settings: all settings of the run. Where several networks had schedules of their own, the
            schedule is the default one.
        result: the content of its result.json.
        model: the networks, T(x) and preprocessing.
        folder: the folder of the run.
    """

    settings: ExperimentSettings
    result: dict[str, Any]
    model: FittedModel
    folder: Path

    def __repr__(self) -> str:
        return f"TrainedRun({str(self.folder)!r}, {self.model})"

    @property
    def classes(self) -> NDArray[Any]:
        """The class labels, [C]."""
        return self.model.classes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """P(true class | x), [N, C]."""
        return self.model.predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable true class of every row, [N].

        Args:
            X: rows as in training: an array, a tensor, a data frame, a sparse matrix, images, or
                the paths of images.
        """
        return self.model.predict(X)

    def transition(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """T(x), [N, C, C]: how likely a row of each class is to carry each label."""
        return self.model.transition(X)

    @functools.cached_property
    def label_issues(self) -> LabelIssues:
        """The judgement of every row of the run's data, as its labels.csv has it.

        The data themselves are not kept, so that :meth:`LabelIssues.report` shows ids and labels,
        unless it is given `sample`; report.html in the folder shows the samples.
        """
        if not self.model.has_transition:
            raise ValueError(
                f"{self.folder} is a run of {self.settings.method}, which estimates no T(x) and "
                "judges no labels. Train one that does, such as PTD-L."
            )
        return LabelIssues.load(check_file(self.folder / ISSUES, self.result))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write settings, model, findings and result to a folder, which must not hold a run."""
        out = Path(folder)
        if (out / RESULT).exists() or (out / SETTINGS).exists():
            raise FileExistsError(f"{out} holds a run already: give another folder.")
        found = self.label_issues if self.model.has_transition else None
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / SETTINGS, (self.folder / SETTINGS).read_text("utf-8"))
        self.model.save(out / MODEL)
        files = [SETTINGS, MODEL]
        if found is not None:
            found.save(out / ISSUES)
            found.to_csv(out / TABLE)
            files.append(ISSUES)
        result = {**self.result, CHECKSUMS: checksums(out, files)}
        write_text(out / RESULT, json.dumps(result, indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, network: OwnNetwork = None) -> TrainedRun:
        """Load a finished run of `ptd-ext train`; no code of the folder is run.

        Args:
            folder: the folder that the command named at its end.
            network: for a run with a network of your own, the function (classes, inputs) → module
                that `--network module:function` named, or that name.
        """
        folder = Path(folder)
        settings, result = _read_metadata(folder)
        path = folder / MODEL
        if not path.is_file():
            raise ValueError(f"{folder} holds no {MODEL}: an earlier version of ptd_ext made it.")
        model = FittedModel.load(check_file(path, result), network=network)
        return cls(settings, result, model, folder)


def _read_metadata(folder: Path) -> tuple[ExperimentSettings, dict[str, Any]]:
    """Settings and result; raises an error if the folder does not hold a finished run."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder.")
    if not (folder / SETTINGS).is_file():
        raise ValueError(f"{folder} holds no run of `ptd-ext train`: there is no {SETTINGS}.")
    path = folder / RESULT
    if not path.is_file():
        raise ValueError(
            f"the run in {folder} is not finished: there is no {RESULT}. Continue it with "
            f"ptd-ext train --out {folder} --resume"
        )
    result = read_result(path)
    check_version(path, result)
    return _read_settings(check_file(folder / SETTINGS, result)), result


def _read_settings(path: Path) -> ExperimentSettings:
    """The settings of a run; those that its version of ptd_ext did not have yet by default."""
    try:
        settings = ExperimentSettings(**read_config(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if settings.method not in METHODS:
        raise ValueError(f"{path}: there is no method {shortened(repr(settings.method))}.")
    return settings
