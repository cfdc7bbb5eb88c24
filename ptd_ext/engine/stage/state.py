"""State that the trainer carries from stage to stage, and into checkpoints.

`torch.load` reads checkpoints without running code, so dataclasses go into them as dictionaries of
tensors and numbers: :func:`to_state` makes these, and the classmethods `from_state` read them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ptd_ext.transition.gate import LinearGate

__all__ = ["BestModel", "Scores", "StageOutputs", "TransitionEstimate", "to_state"]


@dataclass
class TransitionEstimate:
    """T(x) = Σⱼ hⱼ(x)Pʲ + ΔT for the samples of the training and the validation split.

    Attributes:
        weights: h(x) of the training samples, [N, R].
        validation_weights: h(x) of the validation samples, [M, R].
        parts: P, [R, C, C].
        basis: the matrix [R, D] that features are factorised with; None for one matrix.
        slack: ΔT, [C, C]; None unless a stage has revised T.
        class_prior: shares of the clean classes, [C]; None if they were not estimated.
        gate_weight: weight of a :class:`LinearGate`, which replaces the basis, [R, D].
        gate_bias: bias of the gate, [R].
        gate_centre: centre of the gate, [D].
    """

    weights: Tensor
    validation_weights: Tensor
    parts: Tensor
    basis: Tensor | None = None
    slack: Tensor | None = None
    class_prior: Tensor | None = None
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
        cls, transition: Tensor, class_prior: Tensor, samples: int, held_out: int
    ) -> TransitionEstimate:
        """Make the estimate of one matrix T [C, C]: a single part with weight 1 for all samples."""
        ones = transition.new_ones
        return cls(ones(samples, 1), ones(held_out, 1), transition[None], class_prior=class_prior)

    def tensors(self) -> Iterator[Tensor]:
        """All tensors that there are."""
        found = (getattr(self, field.name) for field in dataclasses.fields(self))
        return (tensor for tensor in found if tensor is not None)

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], device: torch.device) -> TransitionEstimate:
        """The reverse of :func:`to_state`, on the device."""
        return cls(**{name: tensor.to(device) for name, tensor in state.items()})


@dataclass
class StageOutputs:
    """Results that finished stages leave to later ones.

    Attributes:
        posterior: P(noisy label | x) of the training samples, [N, C], from the warm-up.
        transition: the estimate of T(x).
        soft_labels: soft labels of the training samples, [N, C], from joint optimisation.
        noise_rate: [], held while a matrix is estimated by counts.
        count_base: off-diagonals that the counts start from, [C, C].
        warm_up_accuracy: [], the share of validation labels that the warmed-up network predicts.
    """

    posterior: Tensor | None = None
    transition: TransitionEstimate | None = None
    soft_labels: Tensor | None = None
    noise_rate: Tensor | None = None
    count_base: Tensor | None = None
    warm_up_accuracy: Tensor | None = None

    def estimated(self) -> TransitionEstimate:
        """The estimate of T(x), for stages that come after the one that makes it."""
        if self.transition is None:
            raise RuntimeError("No stage has estimated T(x) yet.")
        return self.transition

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device) -> StageOutputs:
        """The reverse of :func:`to_state`, on the device."""
        values = dict(state)
        transition = values.pop("transition", None)
        outputs = cls(**{name: tensor.to(device) for name, tensor in values.items()})
        if transition is not None:
            outputs.transition = TransitionEstimate.from_state(transition, device)
        return outputs


@dataclass(frozen=True)
class Scores:
    """Scores of a network after an epoch.

    Attributes:
        epoch: the number of epochs that it has trained for in its stage.
        value: what model selection compares.
        validation_accuracy: on noisy validation labels, per cent.
        validation_likelihood: the mean log-likelihood of noisy validation labels.
        test_accuracy: on clean test labels, per cent; it is only reported.
    """

    epoch: int
    value: float
    validation_accuracy: float
    validation_likelihood: float
    test_accuracy: float

    def figures(self) -> dict[str, float]:
        """The accuracies and the likelihood, by their names in the log."""
        return {
            "validation_accuracy": self.validation_accuracy,
            "validation_likelihood": self.validation_likelihood,
            "test_accuracy": self.test_accuracy,
        }


@dataclass(frozen=True)
class BestModel:
    """The model of a stage that does best on noisy validation data.

    Attributes:
        scores: the scores of its network.
        network: the state dict of its network.
        stage_parameters: the stage's own parameters at that epoch, such as ΔT, by name.
    """

    scores: Scores
    network: dict[str, Tensor]
    stage_parameters: dict[str, Tensor]

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device) -> BestModel:
        """The reverse of :func:`to_state`; networks load their state dicts from any device."""
        parameters = {name: p.to(device) for name, p in state["stage_parameters"].items()}
        return cls(Scores(**state["scores"]), state["network"], parameters)


def to_state(value: Any) -> Any:
    """A dataclass as a dictionary, without the fields that are None; other values as they are."""
    if not dataclasses.is_dataclass(value):
        return value
    items = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return {name: to_state(item) for name, item in items if item is not None}
