"""load_run: a finished run of `ptd-ext train` as a model that predicts, and its findings."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ptd_ext._C import build_info
from ptd_ext.label_issues.files.findings_file import read_issues
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.config.toml import read_config
from ptd_ext.train.data.column_scale import ColumnScale
from ptd_ext.train.data.image_files import ImageFiles
from ptd_ext.train.data.inputs import Scale
from ptd_ext.train.data.sets.arrays import as_inputs
from ptd_ext.train.engine.label_report import ISSUES
from ptd_ext.train.engine.trained_model import MODEL, TRANSITION
from ptd_ext.train.methods.registry import METHODS
from ptd_ext.train.model_file import ModelFile, NetworkFactory, read_model
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils.bounded_files import read_json, reason, shortened

__all__ = ["TrainedRun", "load_run"]

_ROWS = 512  # predicted at once


@dataclass(frozen=True)
class TrainedRun:
    """A finished run of `ptd-ext train`, on the CPU.

    Rows and images are given as they were to training: they are standardised here.

    Attributes:
        folder: the folder of the run.
        settings: all settings of the run.
        result: the content of its result.json.
        classes: the labels, [C].
        network: returns (representation, logits); in evaluation mode.
        part_transition: T(x); None for a method without it.
    """

    folder: Path
    settings: Settings
    result: dict[str, Any]
    classes: NDArray[Any]
    network: nn.Module
    part_transition: PartTransition | None
    _feature_network: nn.Module | None
    _preprocessing: _Preprocessing

    def predict_proba(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """P(true class | x), [N, C]."""
        return self._outputs(X, self.network)[1].softmax(1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable true class of every sample, [N].

        Args:
            X: rows [N, D] or images, an array or a tensor; for a run on image files their paths.
        """
        return self.classes[self.predict_proba(X).argmax(1)]

    def weights(self, X: Any) -> Tensor:  # noqa: N803
        """h(x), [N, R]: how much each part of T(x) counts for a sample."""
        model = self._model()
        if self._feature_network is None:
            return torch.ones(len(self._preprocessing(X)), 1)
        return model.weights(self._outputs(X, self._feature_network)[0])

    def transition(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """T(x), [N, C, C]: how likely a sample of each class is to carry each label."""
        return self._model().matrix(weights=self.weights(X)).double().numpy()

    @functools.cached_property
    def label_issues(self) -> LabelIssues:
        """The judgement of every row of the run's data, as its labels.csv has it.

        The data themselves are not kept, so that :meth:`LabelIssues.report` shows ids and labels,
        unless it is given `sample`; report.html in the folder shows the samples.
        """
        self._model()
        return read_issues(self.folder / ISSUES)

    def _model(self) -> PartTransition:
        if self.part_transition is None:
            raise ValueError(
                f"{self.folder} is a run of {self.settings.method}, which estimates no T(x) and "
                "judges no labels. Train one that does, such as PTD-L."
            )
        return self.part_transition

    @torch.no_grad()
    def _outputs(self, X: Any, network: nn.Module) -> tuple[Tensor, Tensor]:  # noqa: N803
        samples = self._preprocessing(X)
        found = [network(samples[first : first + _ROWS]) for first in range(0, len(samples), _ROWS)]
        if not found:
            raise ValueError("X must hold at least one sample; got none.")
        features, logits = zip(*found, strict=True)
        return torch.cat(features).float(), torch.cat(logits).float()


@dataclass(frozen=True)
class _Preprocessing:
    """Turns samples into what the network was trained on."""

    model: ModelFile

    def __call__(self, X: Any) -> Tensor:  # noqa: N803
        model = self.model
        if model.files and not isinstance(X, (np.ndarray, Tensor)):
            X = ImageFiles("", map(os.fspath, _paths(X)), model.shape[1])[:]  # noqa: N806
        array = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
        if model.tokens:
            return self._tokens(array)
        if array.dtype.kind not in "fiu":
            raise ValueError(f"X must hold numbers; got {array.dtype}.")
        samples = self._checked(as_inputs(array, "X"))
        if samples.dim() == 2 and model.mean is not None and model.std is not None:
            return ColumnScale(model.mean, model.std)(samples)
        if (samples.dtype == torch.uint8) != model.bytes:
            wanted = "uint8, from 0 to 255," if model.bytes else "floats"
            raise ValueError(f"X must be images of {wanted} as in training; got {samples.dtype}.")
        mean, std = (None if v is None else tuple(v.tolist()) for v in (model.mean, model.std))
        return Scale(mean, std, channels_last=False)(samples)

    def _tokens(self, array: NDArray[Any]) -> Tensor:
        if array.dtype.kind not in "iu":
            raise ValueError(f"X must hold the numbers of words; got {array.dtype}.")
        samples = self._checked(torch.from_numpy(array.astype(np.int64)))
        words = self.model.words
        if (
            words is not None
            and samples.numel()
            and not 0 <= samples.min() <= samples.max() < words
        ):
            raise ValueError(
                f"X must hold words 0 to {words - 1}; it has {int(samples.min())} to "
                f"{int(samples.max())}."
            )
        return samples

    def _checked(self, samples: Tensor) -> Tensor:
        if samples.shape[1:] != self.model.shape:
            raise ValueError(
                f"X must hold samples of shape {list(self.model.shape)}, as in training; got "
                f"{list(samples.shape[1:])}."
            )
        return samples


def _paths(X: Any) -> Iterable[Any]:  # noqa: N803
    if isinstance(X, (str, os.PathLike)):
        raise ValueError(f"X must be a list of image files, or their pixels; got {X!r}.")
    return list(X)


def load_run(
    folder: str | os.PathLike[str], *, network: NetworkFactory | None = None
) -> TrainedRun:
    """Load a finished run of `ptd-ext train`; no code of the folder is run.

    Args:
        folder: the folder that the command named at its end.
        network: for a run with a network of one's own, the function (classes, inputs) → module that
            `--network module:function` named. It is not imported by its name in the folder.
    """
    folder = Path(folder)
    settings, result = _read_words(folder)
    path = folder / MODEL
    if not path.is_file():
        raise ValueError(f"{folder} holds no {MODEL}: an earlier version of ptd_ext made it.")
    model, fingerprint = read_model(path)
    if fingerprint != result.get("fingerprint"):
        raise ValueError(f"{path} and result.json beside it are of different runs.")
    learned = _read_transition(folder / TRANSITION, settings)
    try:
        own = model.build("network", network)
        if own is None:
            raise ValueError(f"it lacks the weights of its network {model.network}")
        features = model.build("feature_network", network)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{path} holds no usable model: {reason(error)}.") from error
    _check_transition(folder / TRANSITION, learned, len(model.classes), features and features[1])
    return TrainedRun(
        folder,
        settings,
        result,
        model.classes,
        own[0],
        learned,
        features and features[0],
        _Preprocessing(model),
    )


def _read_words(folder: Path) -> tuple[Settings, dict[str, Any]]:
    """Settings and result, or a sentence on why there is no finished run."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder.")
    if not (folder / "settings.toml").is_file():
        raise ValueError(f"{folder} holds no run of `ptd-ext train`: there is no settings.toml.")
    path = folder / "result.json"
    if not path.is_file():
        raise ValueError(
            f"the run in {folder} is not finished: there is no result.json. Continue it with "
            f"ptd-ext train --out {folder} --resume"
        )
    result = read_json(path)
    if not isinstance(result, dict):
        raise ValueError(f"{path} must hold the result of a run; it holds something else.")
    return _read_settings(folder / "settings.toml", result.get("version")), result


def _read_settings(path: Path, version: Any) -> Settings:
    """The settings of a run; those that its version of ptd_ext did not have yet by default."""
    values = read_config(path)
    missing = [field.name for field in fields(Settings) if field.name not in values]
    if missing and (version == build_info()["version"] or "method" in missing):
        raise ValueError(
            f"{path} must hold all settings of a run; it lacks {len(missing)}, the first is "
            f"{missing[0]}. It is damaged."
        )
    try:
        settings = Settings(**values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if settings.method not in METHODS:
        raise ValueError(f"{path}: there is no method {shortened(repr(settings.method))}.")
    return settings


def _read_transition(path: Path, settings: Settings) -> PartTransition | None:
    """T(x) of a run, unless its method estimates none."""
    if METHODS[settings.method].transition == "none":
        return None
    if not path.is_file():
        raise ValueError(
            f"{path} is missing: {settings.method} estimates T(x), and a finished run of it has "
            "this file. Copy the whole folder."
        )
    return PartTransition.load(path)


def _check_transition(
    path: Path, learned: PartTransition | None, classes: int, size: int | None
) -> None:
    """Raise unless T(x) belongs to a model of `classes` with so large features."""
    if learned is None:
        return
    if learned.classes != classes:
        raise ValueError(f"{path} must be of {classes} classes; it has {learned.classes}.")
    mixed = learned.n_parts > 1 or size is not None
    if mixed and (size is None or learned.features != size):
        raise ValueError(
            f"{path} must weigh its parts by {size or 'no'} features, as {MODEL} beside it has "
            f"them; it takes {learned.features or 'none'}."
        )
