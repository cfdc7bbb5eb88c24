"""load_run: a finished run of `ptd-ext train` as a model that predicts, and its findings."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ptd_ext.label_issues._issue_files import read_issues
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.train import networks
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.config.toml import read_config
from ptd_ext.train.data.column_scale import ColumnScale
from ptd_ext.train.data.image_files import ImageFiles
from ptd_ext.train.data.inputs import Scale
from ptd_ext.train.data.sets.arrays import as_inputs
from ptd_ext.train.engine.label_report import ISSUES
from ptd_ext.train.engine.trained_model import KIND, MODEL
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils import tensor_files

__all__ = ["TrainedRun", "load_run"]

_ROWS = 512  # predicted at once
_MAX_RESULT = 1 << 20

NetworkFactory = Callable[[int, torch.Size], nn.Module]


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

    shape: torch.Size
    mean: Tensor | None
    std: Tensor | None
    tokens: bool
    files: bool
    bytes: bool

    def __call__(self, X: Any) -> Tensor:  # noqa: N803
        if self.files and not isinstance(X, (np.ndarray, Tensor)):
            X = ImageFiles("", map(os.fspath, _paths(X)), self.shape[1])[:]  # noqa: N806
        array = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
        if self.tokens:
            return self._checked(torch.as_tensor(array))
        if array.dtype.kind not in "fiu":
            raise ValueError(f"X must hold numbers; got {array.dtype}.")
        samples = self._checked(as_inputs(array, "X"))
        if samples.dim() == 2 and self.mean is not None and self.std is not None:
            return ColumnScale(self.mean, self.std)(samples)
        if (samples.dtype == torch.uint8) != self.bytes:
            wanted = "uint8, from 0 to 255," if self.bytes else "floats"
            raise ValueError(f"X must be images of {wanted} as in training; got {samples.dtype}.")
        mean, std = (None if v is None else tuple(v.tolist()) for v in (self.mean, self.std))
        return Scale(mean, std, channels_last=False)(samples)

    def _checked(self, samples: Tensor) -> Tensor:
        if samples.shape[1:] != self.shape:
            raise ValueError(
                f"X must hold samples of shape {list(self.shape)}, as in training; got "
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
    tensors, about = tensor_files.read(path, KIND, ())
    if about.get("fingerprint") != result.get("fingerprint"):
        raise ValueError(f"{path} and result.json beside it are of different runs.")
    learned = None
    if (folder / "transition.safetensors").is_file():
        learned = PartTransition.load(folder / "transition.safetensors")
    try:
        shape, classes = torch.Size(about["inputs"]), np.array(about["classes"])
        build = functools.partial(_build, about["network"], len(classes), shape, tensors, network)
        own = build("network.")
        if own is None:
            raise KeyError("network")
        return TrainedRun(
            folder,
            settings,
            result,
            classes,
            own,
            learned,
            build("feature_network."),
            _Preprocessing(
                shape,
                tensors.get("mean"),
                tensors.get("std"),
                *(bool(about[name]) for name in ("tokens", "files", "bytes")),
            ),
        )
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} holds no usable model: {error}") from None


def _read_words(folder: Path) -> tuple[Settings, dict[str, Any]]:
    """Settings and result, or a sentence on why there is no finished run."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder.")
    if not (folder / "settings.toml").is_file():
        raise ValueError(f"{folder} holds no run of `ptd-ext train`: there is no settings.toml.")
    settings = Settings(**read_config(folder / "settings.toml"))
    path = folder / "result.json"
    if not path.is_file():
        raise ValueError(
            f"the run in {folder} is not finished: there is no result.json. Continue it with "
            f"ptd-ext train --out {folder} --resume"
        )
    try:
        if path.stat().st_size > _MAX_RESULT:
            raise ValueError("it is too large")
        result = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged, it is not JSON ({error}).") from None
    if not isinstance(result, dict):
        raise ValueError(f"{path} must hold the result of a run; it holds something else.")
    return settings, result


def _build(
    name: str,
    classes: int,
    shape: torch.Size,
    tensors: dict[str, Tensor],
    factory: NetworkFactory | None,
    prefix: str,
) -> nn.Module | None:
    state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    if not state:
        return None
    if ":" in name:
        if factory is None:
            raise ValueError(
                f"the run has a network of your own, {name}: give that function as network. It is "
                "not imported by a name that stands in a file."
            )
        found = factory(classes, shape)
    else:
        found = networks.build(name, classes, inputs=shape, embedding=state.get("embedding.weight"))
    found.load_state_dict(state)
    return found.eval()
