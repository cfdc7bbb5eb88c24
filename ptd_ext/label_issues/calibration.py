"""Probabilities of the true label, calibrated by the likelihood of the given labels.

Evidence about the true class is rarely a probability: neighbours share their errors, and a network
or a regression is too sure or too unsure. With evidence a that has not seen the row's own label,
the given labels show how much it is worth. The model has one temperature for each kind of evidence,
a bias for each class, and one matrix T::

    g = softmax(b + Σₑ tₑ aₑ)        T = (1 − r) I + r · off        max Σ log (Tᵀg)_ȳ

The noise rate is identified by the rows about which the evidence is clearest: the labels that
disagree there are noise, and disagreement that grows with the distance from them is error of the
evidence. The rates rᵢ of the classes are shrunk towards each other, the off-diagonal and the
temperatures towards a start, by the weight of one row or so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ptd_ext.label_issues.rates import QUANTILE, wilson_interval

_MAX_NUMBERS = 1_500_000  # entries of the evidence that are fitted to; more rows change little
_MIN_ROWS = 1000
_ITERATIONS, _PROFILE_ITERATIONS = 60, 12
# Noise rates that fits start from, and factors of the temperatures: the likelihood may have two
# maxima, few wrong labels or few errors of the evidence.
_STARTS = ((0.02, 0.3), (0.1, 1.0))
_LOG_T = 12.0  # largest logarithm of a temperature
_BIAS_PENALTY = 1e-2
_SMALLEST = 1e-12  # smallest argument of a logarithm
_UNIFORM = 0.4  # share of the uniform off-diagonal in the start
_STEPS = 12  # at most, on each side of the profile


@dataclass(frozen=True)
class Calibration:
    """The result of :func:`calibrate`.

    Attributes:
        clean_probs: g, P(true label | x), [N, C].
        transition: T, [C, C].
        posterior: P(true label | x, given label), [N, C].
        rate_range: a range of the share of wrong labels, see :func:`calibrate`.
        temperatures: t, the weight of each kind of evidence.
    """

    clean_probs: Tensor
    transition: Tensor
    posterior: Tensor
    rate_range: tuple[float, float]
    temperatures: tuple[float, ...]


def calibrate(
    evidence: Tensor,
    labels: Tensor,
    transition: Tensor,
    temperatures: Sequence[float],
    class_prior: Tensor | None = None,
) -> Calibration:
    """Fit temperatures, biases and T by maximum likelihood.

    The lower end of `rate_range` is that of the profile likelihood, if not of the sampling error:
    smaller rates explain the labels clearly worse (95 %). The upper end is at least the share of
    labels that differ from the most probable class, which would be the rate if the model never
    erred: labels alone do not distinguish an error of the model from a wrong label.

    Args:
        evidence: a, logarithms of scores of the classes that do not depend on the row's own label,
            [E, N, C].
        labels: class indices of the given labels, [N].
        transition: T to start from, of which the off-diagonal is used, [C, C].
        temperatures: t where the labels leave it open, one for each kind of evidence, [E]: 1 for
            logarithms of probabilities, less for likelihoods of dependent observations.
        class_prior: shares of the true classes where the evidence does not contain them, [C].
    """
    evidence, (kinds, rows, classes) = evidence.double(), evidence.shape
    fitted = min(rows, max(_MIN_ROWS, _MAX_NUMBERS // (kinds * classes)))
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    chosen = order[:fitted].sort().values
    model = _Model(
        evidence[:, chosen], labels[chosen], transition.double(), temperatures, class_prior
    )
    fits = [model.fit(model.start(*start), _ITERATIONS) for start in _STARTS]
    best, loss = min(fits, key=lambda fit: fit[1])
    g, matrix, posterior = model.judge(best, evidence, labels)
    doubt = 1 - posterior.gather(1, labels[:, None])[:, 0]
    differing = (g.argmax(1) != labels).double().mean().item()
    low, high = model.profile(best, loss)
    # The profile is that of the expected share; the actual one varies around it.
    rate, chance = doubt.mean().item(), QUANTILE * (doubt * (1 - doubt)).sum().sqrt().item() / rows
    sampled = wilson_interval(rate, rows)
    low = min(sampled.low, rate - math.hypot(rate - low, chance))
    high = max(sampled.high, rate + math.hypot(high - rate, chance))
    return Calibration(
        g,
        matrix,
        posterior,
        (max(0.0, low), min(1.0, max(high, wilson_interval(differing, rows).high))),
        tuple(best[:kinds].exp().tolist()),
    )


_Fit = tuple[Tensor, float]  # parameters; the mean loss


class _Model:
    """The likelihood of given labels, as a function of one vector: log t, b, log off, logit r."""

    def __init__(
        self,
        evidence: Tensor,
        labels: Tensor,
        transition: Tensor,
        temperatures: Sequence[float],
        prior: Tensor | None,
    ) -> None:
        self.evidence, self.labels = evidence, labels
        self.kinds, self.rows, self.classes = evidence.shape
        self.eye = torch.eye(self.classes, dtype=torch.float64)
        off = transition.clone().fill_diagonal_(0.0)
        off /= off.sum(1, keepdim=True).clamp(min=_SMALLEST)
        off = torch.lerp(off, (1 - self.eye) / (self.classes - 1), _UNIFORM)
        self.log_off = off.clamp(min=_SMALLEST).log().masked_fill(self.eye.bool(), 0.0).flatten()
        self.log_t = evidence.new_tensor(temperatures).log()
        self.bias = evidence.new_zeros(self.classes)
        if prior is not None:
            self.bias = prior.double().clamp(min=1 / (self.rows + 1)).log()

    def start(self, rate: float, factor: float) -> Tensor:
        log_t = self.log_t + math.log(factor)
        logits = self.bias.new_full((self.classes,), math.log(rate / (1 - rate)))
        return torch.cat([log_t, self.bias, self.log_off, logits])

    def _unpacked(self, vector: Tensor) -> tuple[Tensor, ...]:
        sizes = [self.kinds, self.classes, self.classes**2, self.classes]
        return vector.split(sizes)

    def _clean(self, vector: Tensor, evidence: Tensor) -> tuple[Tensor, Tensor]:
        log_t, bias, log_off, logits = self._unpacked(vector)
        off = log_off.view(self.classes, self.classes)
        off = off.masked_fill(self.eye.bool(), -torch.inf).softmax(1)
        rate = logits.sigmoid()[:, None]
        g = torch.einsum("e,enc->nc", log_t.clamp(max=_LOG_T).exp(), evidence).add(bias).softmax(1)
        return g, (1 - rate) * self.eye + rate * off

    def _loss(self, vector: Tensor) -> Tensor:
        log_t, bias, log_off, logits = self._unpacked(vector)
        g, matrix = self._clean(vector, self.evidence)
        explained = (g * matrix.T[self.labels]).sum(1).clamp(min=_SMALLEST).log().mean()
        shrunk = (log_off - self.log_off).square().sum() + (logits - logits.mean()).square().sum()
        shrunk = shrunk + (log_t - self.log_t).square().sum()
        return (
            _BIAS_PENALTY * (bias - self.bias).square().mean() + shrunk / 2 / self.rows - explained
        )

    def fit(self, start: Tensor, iterations: int, held: float | None = None) -> _Fit:
        """The best parameters; with `held`, those of which the mean logit of r is this."""

        def at(vector: Tensor) -> Tensor:
            if held is None:
                return vector
            rest, logits = vector[: -self.classes], vector[-self.classes :]
            return torch.cat([rest, logits - logits.mean() + held])

        vector = start.clone().requires_grad_(True)
        optimiser = torch.optim.LBFGS(
            [vector], max_iter=iterations, tolerance_change=1e-9, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimiser.zero_grad()
            loss = self._loss(at(vector))
            loss.backward()
            return loss

        with torch.enable_grad():
            optimiser.step(closure)
        with torch.no_grad():
            best = at(vector).detach()
            if not best.isfinite().all():  # a step that went too far
                best = at(start)
            return best, self._loss(best).item()

    @torch.no_grad()
    def judge(
        self, vector: Tensor, evidence: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """g, T and the posterior of rows."""
        g, matrix = self._clean(vector, evidence)
        posterior = g * matrix.T[labels]
        return g, matrix, posterior / posterior.sum(1, keepdim=True).clamp(min=_SMALLEST)

    def _rate(self, vector: Tensor) -> float:
        posterior = self.judge(vector, self.evidence, self.labels)[2]
        return 1 - posterior.gather(1, self.labels[:, None]).mean().item()

    def profile(self, best: Tensor, loss: float) -> tuple[float, float]:
        """The rates at which the likelihood falls by what 95 % of samples do at the true rate."""
        ends = [self._end(best, loss, side) for side in (-1, 1)]
        return min(ends), max(ends)

    def _end(self, vector: Tensor, loss: float, side: int) -> float:
        rate = self._rate(vector)
        share = min(max(vector[-self.classes :].sigmoid().mean().item(), 1 / self.rows), 0.9)
        step = side / math.sqrt(self.rows * share * (1 - share))
        logit, fallen = math.log(share / (1 - share)), 0.0
        for _ in range(_STEPS):
            logit += step
            vector, other = self.fit(vector, _PROFILE_ITERATIONS, logit)
            before, last = rate, fallen
            rate, fallen = self._rate(vector), math.sqrt(max(0.0, 2 * self.rows * (other - loss)))
            if fallen > QUANTILE:
                return before + (QUANTILE - last) / (fallen - last) * (rate - before)
            step *= 1.5
        return rate
