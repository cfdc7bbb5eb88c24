"""FittedModel: what training returns, which predicts and judges rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.engine.model import model_file
from ptd_ext.engine.model.members import Judgement, Member, judge_rows
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.labels import encode_labels
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.torch_dataset import read_dataset
from ptd_ext.engine.stage.state import Scores
from ptd_ext.utils.arguments import check_same_index
from ptd_ext.utils.distributed import Ranks


@dataclass(frozen=True)
class Validation:
    """How a model did on given labels of rows that it was not trained on.

    Attributes:
        rows: the number of these rows.
        accuracy: the share of their given labels that the network predicts after its warm-up.
        beats_chance: whether that, or the likelihood of the labels, is clearly better than chance.
        warning: why it is not; empty if it is.
    """

    rows: int
    accuracy: float
    beats_chance: bool
    warning: str = ""


@dataclass(frozen=True)
class Outcome:
    """The course of training, which is not kept in files.

    Attributes:
        best: the scores of the first network after the epoch that was selected.
        last: its scores after the last epoch.
        seconds: how long training took, of all networks that were tried.
    """

    best: Scores
    last: Scores
    seconds: float


@dataclass(frozen=True, repr=False)
class FittedModel:
    """Networks trained through T(x), with all that predicting and judging new rows needs.

    Attributes:
        members: the networks, each with its T(x); their probabilities are averaged.
        preprocessing: how rows become what the networks take.
        classes: the class labels, [C].
        method: the name of the method.
        validation: how the model did on held-out given labels.
        curves: values per epoch, by title.
        fingerprint: a hash of the rows and labels of training.
        parameters: settings that are stored with the model, as JSON can hold them.
        outcome: the course of training; None for a model from a file.
    """

    members: tuple[Member, ...]
    preprocessing: Preprocessing
    classes: NDArray[Any]
    method: str
    validation: Validation
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    fingerprint: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None

    def __repr__(self) -> str:
        shape = list(self.preprocessing.shape)
        return (
            f"FittedModel({self.method} with {self.network_name}, {len(self.classes)} classes, "
            f"samples {shape})"
        )

    @property
    def network_name(self) -> str:
        """The names of the networks, joined by "and"."""
        return " and ".join(member.name for member in self.members)

    @property
    def has_transition(self) -> bool:
        """True if the method estimates T or T(x), so that labels can be judged."""
        return self.members[0].part_transition is not None

    def predict_proba(self, X: Any, ranks: Ranks | None = None) -> NDArray[np.float64]:  # noqa: N803
        """P(true class | x), [N, C]."""
        inputs = self.inputs(X)
        found = [member.logits(inputs, ranks).softmax(1) for member in self.members]
        return torch.stack(found).mean(0).double().cpu().numpy()

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable true class of every row, [N].

        Args:
            X: rows as in training: an array, a tensor, a data frame, a sparse matrix, images, or
                the paths of images.
        """
        return self.classes[self.predict_proba(X).argmax(1)]

    def weights(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The weights h(x) of the parts of all members, [N, R]."""
        inputs = self.inputs(X)
        found = torch.cat([member.weights(inputs) for member in self.members], 1)
        return (found / len(self.members)).double().cpu().numpy()

    def transition(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """T(x) of every row, [N, C, C]: how likely a row of each class is to carry each label."""
        inputs, found = self.inputs(X), []
        for member in self.members:
            model = member.required_transition
            found.append(model.transition(weights=member.weights(inputs)))
        return torch.stack(found).mean(0).double().cpu().numpy()

    def judge(
        self,
        X: Any,  # noqa: N803
        y: Any,
        *,
        clean_probs: Tensor | None = None,
        ranks: Ranks | None = None,
    ) -> Judgement:
        """Judge rows by their given labels, which must be among `classes`.

        The networks judge alone; in findings, the neighbours of a row take part.

        Args:
            X: the rows, as in training.
            y: their given labels, [N].
            clean_probs: P(true label | x) to use instead of the model's own, [N, C].
            ranks: the processes that share the work.
        """
        check_same_index(X=X, y=y)
        codes = torch.from_numpy(encode_labels(y, self.classes.tolist()).codes)
        inputs = self.inputs(X)
        if len(codes) != len(inputs):
            raise ValueError(
                f"y must have one label for each of {len(inputs)} rows of X; got {len(codes)}."
            )
        return judge_rows(self.members, [inputs], codes, clean_probs=clean_probs, ranks=ranks)

    def inputs(self, X: Any) -> Inputs:  # noqa: N803
        """Rows as the networks take them."""
        if isinstance(X, Inputs):
            return X
        if isinstance(X, torch.utils.data.Dataset):
            X = read_dataset(X)[0]  # noqa: N806
        stored = self.preprocessing.store(X)
        if not len(stored):
            raise ValueError("X must hold at least one row; got none.")
        return Inputs(stored, None, self.preprocessing)

    def to(self, *args: Any) -> FittedModel:
        """A copy on a device, or with numbers of a type."""
        return replace(self, members=tuple(member.to(*args) for member in self.members))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as safetensors, without code."""
        about = {
            "method": self.method,
            "validation": vars(self.validation),
            "curves": {name: list(values) for name, values in self.curves.items()},
            "fingerprint": self.fingerprint,
            "parameters": dict(self.parameters),
        }
        model_file.write(path, self.members, self.preprocessing, self.classes, about)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, network: model_file.OwnNetwork = None
    ) -> FittedModel:
        """Read what :meth:`save` wrote; no code of the file is run.

        Args:
            path: the file.
            network: for a model with a network of your own: the function (classes, inputs) → module
                that makes it, or its name `package.module:function`, which is then imported.
        """
        members, preprocessing, classes, about = model_file.read(path, network)
        names = ("method", "curves", "fingerprint", "parameters")
        return cls(
            members,
            preprocessing,
            classes,
            validation=Validation(**about["validation"]),
            **{name: about[name] for name in names},
        )
