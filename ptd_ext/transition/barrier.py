"""A loss term that keeps classes from vanishing.

A likelihood through a transition matrix can explain all labels of a class by noise, so that the
network predicts the class for no sample. The term grows when the mean prediction of a class falls
below half its share of the noisy labels; with a known class prior it is the divergence from that.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

ClassPrior = Literal["uniform"] | Tensor | None

# Defaults of TransitionEM and of the settings.
BARRIER, PRIOR_WEIGHT = 1.0, 0.3

_SAMPLES_PER_CLASS = 10  # in a batch; the means of smaller batches enter a running mean
_SMALLEST_MEAN = 1e-30  # mean prediction of a class; its reciprocal is a float32


class ClassBarrier(nn.Module):
    r"""The penalty Σ strength_c · relu(floor_c − log ḡ_c) on the mean prediction ḡ of a batch.

    Without a prior, with p the shares of the noisy labels, that is
    weight · Σ p_c · relu(log(p_c / 2) − log ḡ_c). With a known prior π it is
    prior_weight · KL(π ‖ ḡ).

    Args:
        shares: p, [C].
        class_prior: None for unknown, "uniform", or π [C].
        weight: weight of the penalty without a prior.
        prior_weight: weight of the divergence from a known prior.
    """

    marginal: Tensor  # [C], the running mean of predictions, for batches of few samples
    _strength: Tensor  # [C]
    _floor: Tensor  # [C], of log ḡ; infinite for a divergence, which has none
    _constant: Tensor  # []

    def __init__(
        self,
        shares: Tensor,
        class_prior: ClassPrior = None,
        *,
        weight: float = BARRIER,
        prior_weight: float = PRIOR_WEIGHT,
    ) -> None:
        super().__init__()
        for name, value in (("barrier", weight), ("prior_weight", prior_weight)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite; got {value}.")
        self.n_classes = len(shares)
        prior = _checked(class_prior, self.n_classes)
        self.known = prior is not None
        strength, floor, constant = weight * shares, (shares / 2).log(), torch.zeros(())
        if prior is not None:
            strength, floor = prior_weight * prior, torch.full_like(shares, math.inf)
            # The divergence is zero where ḡ is the prior.
            constant = prior_weight * torch.special.xlogy(prior, prior).sum()
        self.register_buffer("marginal", shares.clone() if prior is None else prior.clone())
        self.register_buffer("_strength", strength, persistent=False)
        self.register_buffer("_floor", floor, persistent=False)
        self.register_buffer("_constant", constant, persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        """The term of a batch of logits [N, C]."""
        return self.at_mean(logits.softmax(1).mean(0), len(logits))[0]

    def at_mean(self, mean: Tensor, samples: int) -> tuple[Tensor, Tensor]:
        """The term, and its derivative by ḡ [C], of the mean prediction of `samples`.

        A small batch's mean enters a running one, for the gradient as if it were the batch's own.
        """
        weight = min(1.0, samples / (_SAMPLES_PER_CLASS * self.n_classes))
        running = torch.lerp(self.marginal.to(mean), mean.detach(), weight)
        if self.training:
            # A batch that overflowed must not stay in the running mean.
            self.marginal.copy_(torch.where(running.isfinite().all(), running, self.marginal))
        running = running.clamp_(min=_SMALLEST_MEAN)
        log_mean, strength = running.log(), self._strength.to(mean)
        slope = -strength / running
        if self.known:
            value = self._constant.to(mean) - strength @ log_mean
        else:
            below = self._floor.to(mean) - log_mean
            value = strength @ below.clamp(min=0.0)
            slope = torch.where(below > 0, slope, 0.0)
        if mean.requires_grad:
            linear = slope @ mean
            value = value + (linear - linear.detach())
        return value, slope


def class_prior_of(text: str) -> ClassPrior:
    """A class prior from a setting: "unknown", "uniform", or shares such as "0.5, 0.3, 0.2"."""
    if text in ("unknown", "uniform"):
        return "uniform" if text == "uniform" else None
    try:
        shares = [float(share) for share in text.split(",")]
    except ValueError:
        raise ValueError(
            "class_prior must be unknown, uniform, or shares with commas between them; got "
            f"{text!r}."
        ) from None
    return _checked(shares, len(shares))


def _checked(given: Any, n_classes: int) -> Tensor | None:
    if given is None:
        return None
    if isinstance(given, str):
        if given != "uniform":
            raise ValueError(f'class_prior must be None, "uniform" or [C]; got {given!r}.')
        return torch.full((n_classes,), 1 / n_classes)
    prior = torch.as_tensor(given, dtype=torch.float32).detach()
    if prior.shape != (n_classes,):
        raise ValueError(f"class_prior must be [{n_classes}]; got {list(prior.shape)}.")
    total = prior.sum().item()
    if not (abs(total - 1) < 1e-3 and (prior >= 0).all()):  # NaN fails both
        raise ValueError(
            "class_prior must be probabilities with sum 1; the smallest is "
            f"{prior.min().item():.6g} and the sum {total:.6g}."
        )
    return prior / total
