"""State that the trainer carries from stage to stage, and into checkpoints.

`torch.load` reads checkpoints without running code, so dataclasses go into them as dictionaries of
tensors and numbers: see :func:`to_state` and the classmethods `from_state`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.transition.gate import LinearGate


@dataclass
class SampleTransitions:
    """T(x) = Σⱼ hⱼ(x)Pʲ + ΔT for the samples of the training and the validation split."""

    weights: Tensor  # h(x) of the training samples, [N, R]
    validation_weights: Tensor  # h(x) of the validation samples, [M, R]
    parts: Tensor  # P, [R, C, C]
    basis: Tensor | None = None  # the matrix that features are factorised with, [R, D]
    slack: Tensor | None = None  # ΔT, [C, C], once a stage has revised T
    class_prior: Tensor | None = None  # shares of the clean classes, [C], if estimated
    # The tensors of a LinearGate, which replaces the basis: [R, D], [R] and [D].
    gate_weight: Tensor | None = None
    gate_bias: Tensor | None = None
    gate_centre: Tensor | None = None

    @property
    def gate(self) -> LinearGate | None:
        """The gate that gives h(x), where there is one."""
        if self.gate_weight is None or self.gate_bias is None or self.gate_centre is None:
            return None
        return LinearGate(self.gate_weight, self.gate_bias, self.gate_centre)

    @classmethod
    def one_matrix(
        cls, transition: Tensor, class_prior: Tensor, data: TrainingData
    ) -> SampleTransitions:
        """Make the estimate of one matrix T [C, C]: a single part with weight 1 for all samples."""
        train, held_out = (
            transition.new_ones(len(labels), 1)
            for labels in (data.train_labels, data.validation_labels)
        )
        return cls(train, held_out, transition[None], class_prior=class_prior)

    def tensors(self) -> Iterator[Tensor]:
        """All tensors that are not None."""
        found = (getattr(self, field.name) for field in dataclasses.fields(self))
        return (tensor for tensor in found if tensor is not None)


@dataclass
class StageOutputs:
    """Results that finished stages leave to later ones."""

    pred_probs: Tensor | None = None  # P(given label | x) of the training samples, [N, C]
    estimate: SampleTransitions | None = None
    soft_labels: Tensor | None = None  # labels of the training samples that Joint learned, [N, C]
    noise_rate: Tensor | None = None  # held while a matrix is estimated by counts, []
    count_base: Tensor | None = None  # off-diagonals that the counts start from, [C, C]
    # The state dict of the network whose features give the weights of parts.
    feature_network: dict[str, Tensor] | None = None
    # The share of validation labels that the warmed-up network predicts, [].
    warm_up_accuracy: Tensor | None = None

    def estimated(self) -> SampleTransitions:
        """The estimate of T(x), once a stage has made it."""
        assert self.estimate is not None
        return self.estimate

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> StageOutputs:
        """The inverse of :func:`to_state`."""
        tensors = state.get("estimate")
        estimate = None if tensors is None else SampleTransitions(**tensors)
        return cls(**{**state, "estimate": estimate})


@dataclass(frozen=True)
class Scores:
    """Scores of a network after an epoch."""

    epoch: int  # the number of epochs that it has trained for in its stage
    value: float  # compared by model selection
    validation_accuracy: float  # on noisy validation labels, per cent
    validation_likelihood: float  # the mean log-likelihood of noisy validation labels
    observed: dict[str, float]  # by the observer, such as the test accuracy, only reported

    def figures(self) -> dict[str, float]:
        """The accuracies and the likelihood, by their names in the log."""
        return {
            "validation_accuracy": self.validation_accuracy,
            "validation_likelihood": self.validation_likelihood,
            **self.observed,
        }


@dataclass(frozen=True)
class BestModel:
    """The model of a stage that does best on noisy validation data."""

    scores: Scores
    network: dict[str, Tensor]  # its state dict
    stage_parameters: dict[str, Tensor]  # the stage's own at that epoch, such as ΔT

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> BestModel:
        """The inverse of :func:`to_state`."""
        return cls(**{**state, "scores": Scores(**state["scores"])})


def to_state(value: Any) -> Any:
    """A dataclass as a dictionary, without the fields that are None; other values as they are."""
    if not dataclasses.is_dataclass(value):
        return value
    items = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return {name: to_state(item) for name, item in items if item is not None}
