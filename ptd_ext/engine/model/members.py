"""The networks of a classifier, each with its own T(x), which judge rows together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ptd_ext.ops.functional import clean_posterior, transition_matrix
from ptd_ext.transition.model import PartTransition

__all__ = ["Judgement", "Member", "expected_joint", "judge_rows"]

_ROWS = 4096  # predicted at once
_SMALLEST = 1e-30  # of a sum that is divided by


@dataclass(frozen=True)
class Member:
    """A trained network with its T(x).

    Attributes:
        name: the name of the network.
        network: returns (representation, logits); in evaluation mode.
        feature_network: the network whose representations the gate of `transition` takes; None
            where T(x) is one matrix.
        transition: T(x).
    """

    name: str
    network: nn.Module
    feature_network: nn.Module | None
    transition: PartTransition

    def to(self, dtype: torch.dtype) -> Member:
        """A copy with numbers of this type."""
        features = self.feature_network
        return Member(
            self.name,
            copy.deepcopy(self.network).to(dtype),
            None if features is None else copy.deepcopy(features).to(dtype),
            self.transition.to(dtype),
        )

    @torch.no_grad()
    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [N, C] and weights h(x) [N, R]."""
        logits, weights = [], []
        for rows in inputs.split(_ROWS):
            rows = rows.to(self.transition.parts.dtype)
            logits.append(self.network(rows)[1])
            if self.feature_network is not None:
                weights.append(self.transition.weights(self.feature_network(rows)[0]))
            else:
                weights.append(rows.new_ones(len(rows), 1))
        return torch.cat(logits), torch.cat(weights)

    def joint(self, logits: Tensor, weights: Tensor) -> Tensor:
        """P(true class, given label) that the network and T(x) expect of these rows, [C, C]."""
        return expected_joint(logits, weights, self.transition)


def expected_joint(logits: Tensor, weights: Tensor, transition: PartTransition) -> Tensor:
    """P(true class, given label) that logits [N, C] and T(x) expect of a row, [C, C]."""
    posterior = logits.softmax(1)
    shares = posterior.T @ weights  # [C, R]: h(x) summed over the rows of each class
    sizes = shares.sum(1, keepdim=True)
    rows = torch.einsum("cr,rck->ck", shares / sizes.clamp(min=_SMALLEST), transition.parts)
    if transition.slack is not None:
        rows = transition_matrix(rows.new_ones(1, 1), rows[None], transition.slack)[0]
    return sizes / len(logits) * rows


@dataclass(frozen=True)
class Judgement:
    """The mean of what the members say of rows with given labels.

    Attributes:
        posterior: P(true label | x, given label), [N, C].
        joint: P(true class, given label) of a row, [C, C].
        transition: the mean of T(x), [C, C].
        parts: the parts of all members, [R, C, C].
        part_shares: the mean weight of each part, [R].
    """

    posterior: Tensor
    joint: Tensor
    transition: Tensor
    parts: Tensor
    part_shares: Tensor


def judge_rows(members: Sequence[Member], inputs: Tensor, codes: Tensor) -> Judgement:
    """Judge rows [N, …] with the class indices of their given labels [N]."""
    posterior, joint, transition, parts, shares = [], [], [], [], []
    for member in members:
        logits, weights = member.outputs(inputs)
        model, mean = member.transition, weights.mean(0)
        posterior.append(clean_posterior(logits, codes, weights, model.parts, model.slack))
        joint.append(member.joint(logits, weights))
        transition.append(model.matrix(weights=mean[None])[0])
        parts.append(model.parts)
        shares.append(mean / len(members))
    return Judgement(
        torch.stack(posterior).mean(0),
        torch.stack(joint).mean(0),
        torch.stack(transition).mean(0),
        torch.cat(parts),
        torch.cat(shares),
    )
