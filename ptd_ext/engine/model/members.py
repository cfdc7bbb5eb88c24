"""The networks of a fitted model, each with its own T(x), which judge rows together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.stage.evaluate import predict, predict_all
from ptd_ext.ops.functional import clean_posterior, noisy_posterior, transition_matrix
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils.distributed import Ranks

_SMALLEST = 1e-30  # keeps a sum that is divided by away from zero


@dataclass(frozen=True)
class Member:
    """A trained network with its T(x).

    Attributes:
        name: the name of the network.
        network: returns (representation, logits); in evaluation mode.
        feature_network: the network whose representations give the weights of the parts; None
            where T is one matrix.
        part_transition: T(x); None for a method without a transition matrix.
    """

    name: str
    network: nn.Module
    feature_network: nn.Module | None = None
    part_transition: PartTransition | None = None

    def to(self, *args: Any) -> Member:
        """A copy on a device, or with numbers of a type."""
        features, model = self.feature_network, self.part_transition
        return replace(
            self,
            network=copy.deepcopy(self.network).to(*args),
            feature_network=None if features is None else copy.deepcopy(features).to(*args),
            part_transition=None if model is None else model.to(*args),
        )

    def logits(self, inputs: Inputs, ranks: Ranks | None = None) -> Tensor:
        """Logits of rows, [N, C]; ranks share the work."""
        return _finite(predict(self.network, inputs, self._device, ranks or Ranks()).logits)

    def weights(self, inputs: Inputs, ranks: Ranks | None = None) -> Tensor:
        """The weights h(x) of the parts, [N, R]."""
        if self.feature_network is None:
            return self.required_transition.parts.new_ones(len(inputs), 1)
        found = predict(self.feature_network, inputs, self._device, ranks or Ranks(), features=True)
        return self._weights(found.features)

    def logits_and_weights(
        self, inputs: Inputs, ranks: Ranks | None = None
    ) -> tuple[Tensor, Tensor]:
        """Both, with each row fetched once: rows may be files."""
        if self.feature_network is None:
            return self.logits(inputs, ranks), self.weights(inputs, ranks)
        networks = [(self.network, False), (self.feature_network, True)]
        own, other = predict_all(networks, inputs, self._device, ranks or Ranks())
        return _finite(own.logits), self._weights(other.features)

    def _weights(self, features: Tensor) -> Tensor:
        return _finite(self.required_transition.weights(_finite(features)))

    @property
    def required_transition(self) -> PartTransition:
        """T(x); raises an error for a method without one."""
        if self.part_transition is None:
            raise ValueError(
                "The method estimates no T(x), so that labels cannot be judged. Train one that "
                "does, such as PTD-L."
            )
        return self.part_transition

    @property
    def _device(self) -> torch.device:
        return next(self.network.parameters()).device


def _finite(outputs: Tensor) -> Tensor:
    """The outputs of a network, [N, D]; raises for rows from which it computes no numbers."""
    if not outputs.isfinite().all():
        row = int((~outputs.isfinite()).any(1).nonzero()[0])
        raise ValueError(
            f"X must hold numbers of about the size of those in training; those of row {row} "
            "exceed what the network can compute with."
        )
    return outputs


@dataclass(frozen=True)
class Judgement:
    """The findings of a model for rows with given labels, averaged over its members.

    Attributes:
        posterior: P(true label | x, given label), [N, C].
        joint: P(true class, given label) that the model expects of a row, [C, C].
        transition: T(x), averaged over the rows, [C, C].
        parts: the parts of all members, [R, C, C].
        part_shares: the mean weight of each part, [R].
        explained: P(given label | x) of the rows, [N]; None if it was not computed.
        clean_probs: P(true label | x), [N, C]; None if it was not computed.
        rate_range: a range of the share of wrong labels that includes errors of the model.
    """

    posterior: Tensor
    joint: Tensor
    transition: Tensor
    parts: Tensor
    part_shares: Tensor
    explained: Tensor | None = None
    clean_probs: Tensor | None = None
    rate_range: tuple[float, float] | None = None


def judge_rows(
    members: Sequence[Member],
    rows: Sequence[Inputs],
    codes: Tensor,
    *,
    clean_probs: Tensor | None = None,
    ranks: Ranks | None = None,
) -> Judgement:
    """Judge rows by their given labels.

    Args:
        members: the networks with their T(x).
        rows: the rows in one or more pieces, [N, …] together.
        codes: class indices of their given labels, [N].
        clean_probs: P(true label | x) to use instead of that of the networks, [N, C].
        ranks: the processes that share the work.
    """
    posterior, joint, transition = torch.zeros(()), torch.zeros(()), torch.zeros(())
    explained, clean_mean = torch.zeros(()), torch.zeros(())
    parts, shares, count = [], [], len(members)
    for member in members:
        model = member.required_transition
        if clean_probs is None:
            found = [member.logits_and_weights(inputs, ranks) for inputs in rows]
            logits, weights = (torch.cat(each) for each in zip(*found, strict=True))
        else:
            weights = torch.cat([member.weights(inputs, ranks) for inputs in rows])
            logits = clean_probs.to(weights).clamp(min=_SMALLEST).log()
        mean = weights.mean(0)
        labels = codes.to(logits.device)
        clean = clean_posterior(logits, labels, weights, model.parts, model.slack)
        posterior = posterior + clean.cpu() / count
        noisy = noisy_posterior(logits, weights, model.parts, model.slack)
        explained = explained + noisy.gather(1, labels[:, None])[:, 0].cpu() / count
        clean_mean = clean_mean + logits.softmax(1).cpu() / count
        joint = joint + _expected_joint(logits, weights, model).cpu() / count
        mixed = transition_matrix(mean[None], model.parts, model.slack)[0]
        transition = transition + mixed.cpu() / count
        parts.append(model.parts.cpu())
        shares.append(mean.cpu() / count)
    return Judgement(
        posterior, joint, transition, torch.cat(parts), torch.cat(shares), explained, clean_mean
    )


def _expected_joint(logits: Tensor, weights: Tensor, model: PartTransition) -> Tensor:
    """P(true class, given label) that logits [N, C] and T(x) expect of a row, [C, C]."""
    posterior = logits.softmax(1)
    shares = posterior.T @ weights  # [C, R]: h(x) summed over the rows of each class
    sizes = shares.sum(1, keepdim=True)
    rows = torch.einsum("cr,rck->ck", shares / sizes.clamp(min=_SMALLEST), model.parts)
    if model.slack is not None:
        rows = transition_matrix(rows.new_ones(1, 1), rows[None], model.slack)[0]
    return sizes / len(logits) * rows
