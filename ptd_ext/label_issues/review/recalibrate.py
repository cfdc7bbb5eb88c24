"""Findings brought up to date with verified labels, without training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from ptd_ext.label_issues.rates import Interval, NoiseRate, flag_issues
from ptd_ext.label_issues.review.decisions import Answer
from ptd_ext.transition.verified import NONE_OF_THEM, UNREVIEWED, WRONG, fix_posterior

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues

_CLIP = 1e-6  # a quality closer to 0 or 1 has a logit that would outweigh all others
# Weights of the squared differences from (0, 1, 0), chosen on seeds that no benchmark reports.
_RIDGE_A, _RIDGE_B, _RIDGE_U = 0.5, 1.0, 5.0
_MAX_STEPS = 50  # Newton's method needs some five
_TOLERANCE = 1e-10
_EXTRAPOLATED = (
    "Most labels are less doubtful than every verified one, so that the noise rate is an "
    "extrapolation. Review some rows at random, such as those of audit()."
)
_QUANTILE = 1.959963984540054  # normal quantile for a 95 % interval


@dataclass(frozen=True)
class Recalibration:
    """logit P(right) = a + b · logit(quality) + u of the given class.

    Attributes:
        parameters: a, b and u, [2 + C].
        covariance: their covariance, [2 + C, 2 + C].
    """

    parameters: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def right(self, quality: NDArray[np.float64], given: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(right) of labels, [N]."""
        a, b, u = self.parameters[0], self.parameters[1], self.parameters[2:]
        return _sigmoid(a + b * _logit(quality) + u[given])

    def rate(
        self, quality: NDArray[np.float64], given: NDArray[np.int64], known_wrong: int, known: int
    ) -> Interval:
        """The share of wrong labels among these rows and others that are known.

        Its variance has two parts: that of the parameters, and that of the labels given P(right).

        Args:
            quality: the qualities before the recalibration, [N].
            given: class indices of the given labels, [N].
            known_wrong: the number of wrong labels among the other rows.
            known: the number of the other rows.
        """
        rows = len(quality) + known
        if not rows:
            return Interval(np.nan, 0.0, 1.0)
        right = self.right(quality, given)
        spread = right * (1 - right)
        estimate = (known_wrong + float((1 - right).sum())) / rows
        by_class = np.bincount(given, weights=spread, minlength=len(self.parameters) - 2)
        slope = np.array([spread.sum(), spread @ _logit(quality), *by_class]) / rows
        variance = float(slope @ self.covariance @ slope + spread.sum() / rows**2)
        half = _QUANTILE * variance**0.5
        return Interval(estimate, max(0.0, estimate - half), min(1.0, estimate + half))


def recalibrate(
    quality: NDArray[np.float64], given: NDArray[np.int64], right: NDArray[np.bool_], n_classes: int
) -> Recalibration:
    """Fit the parameters to reviewed rows, in whatever order they were chosen by their quality.

    They maximise the likelihood minus ½ Σ λ (θ − θ₀)² with θ₀ = (0, 1, 0), by Newton's method.

    Args:
        quality: P(true label = given label | x, given label) before the review, [n].
        given: class indices of the given labels, [n].
        right: whether each label turned out to be right, [n].
        n_classes: C.
    """
    start = np.zeros(2 + n_classes)
    start[1] = 1.0
    ridge = np.array([_RIDGE_A, _RIDGE_B, *[_RIDGE_U] * n_classes])
    design = _design(quality, given, n_classes)
    # Only directions of a, b and of reviewed classes move; the others keep the prior.
    theta = start.copy()

    def objective(at: NDArray[np.float64]) -> float:
        score = design @ at
        likelihood = np.where(right, score, 0).sum() - np.logaddexp(0, score).sum()
        return float(likelihood - 0.5 * (ridge * (at - start) ** 2).sum())

    hessian = np.diag(ridge)
    for _ in range(_MAX_STEPS):
        p = _sigmoid(design @ theta)
        gradient = design.T @ (right - p) - ridge * (theta - start)
        hessian = (design.T * (p * (1 - p))) @ design + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        before, scale = objective(theta), 1.0
        while objective(theta + scale * step) < before and scale > _TOLERANCE:
            scale /= 2  # the objective is concave: a shorter step raises it
        theta = theta + scale * step
        if np.abs(scale * step).max() < _TOLERANCE:
            break
    return Recalibration(theta, np.linalg.inv(hessian))


def update(found: LabelIssues, codes: NDArray[np.int64], flag_share: float) -> LabelIssues:
    """The findings with reviewed rows fixed, and the others recalibrated by them.

    Args:
        found: the findings.
        codes: what the review found, as in `ptd_ext.transition.verified`, [N].
        flag_share: as in :func:`ptd_ext.find_label_issues`.
    """
    given, n_classes = found.class_indices(found.given_label), len(found.classes)
    new = (codes != UNREVIEWED) & ~found.is_verified
    fitted = recalibrate(found.label_quality[new], given[new], codes[new] == given[new], n_classes)
    verified = np.where(codes != UNREVIEWED, answers(codes, given), found.verified)
    open_rows = verified == "no"
    quality = found.label_quality.copy()
    quality[open_rows] = fitted.right(found.label_quality[open_rows], given[open_rows])

    def rate(mask: NDArray[np.bool_]) -> Interval:
        judged, known = mask & open_rows, mask & ~open_rows
        wrong = int((verified[known] != Answer.CONFIRMED.value).sum())
        return fitted.rate(found.label_quality[judged], given[judged], wrong, int(known.sum()))

    masks = [given == code for code in range(n_classes)]
    rates = NoiseRate(rate(np.ones(len(found), bool)), tuple(map(rate, masks)))
    updated = _with_quality(found, codes, verified, quality, rates, flag_share)
    reviewed, others = found.label_quality[new], found.label_quality[open_rows]
    if len(reviewed) and len(others) and np.median(others) > reviewed.max():
        updated = replace(updated, warnings=(*updated.warnings, _EXTRAPOLATED))
    return updated


def update_retrained(
    found: LabelIssues, before: LabelIssues, codes: NDArray[np.int64], flag_share: float
) -> LabelIssues:
    """Findings of a model that was trained with verified labels, with the rates from `before`.

    A model has memorised the labels that it was trained on, so that these cannot calibrate it. Each
    given class gets a shift of logit P(right) that makes its mean over the other rows that of
    `before`.

    Args:
        found: the findings of that model.
        before: updated findings of a model that was trained without verified labels.
        codes: what the review found, [N].
        flag_share: as in :func:`ptd_ext.find_label_issues`.
    """
    given, quality = found.class_indices(found.given_label), found.label_quality.copy()
    for code in range(len(found.classes)):
        rows = np.flatnonzero((given == code) & ~before.is_verified)
        if len(rows):
            quality[rows] = _shifted(quality[rows], before.label_quality[rows].mean())
    updated = _with_quality(found, codes, before.verified, quality, before.noise_rate, flag_share)
    caveats = tuple(each for each in before.warnings if each == _EXTRAPOLATED)
    return replace(updated, warnings=(*updated.warnings, *caveats))


def _shifted(quality: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    """The qualities with logits shifted to this mean, by bisection."""
    score, low, high = _logit(quality), -40.0, 40.0
    for _ in range(_MAX_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(score + middle).mean() < mean else (low, middle)
    return _sigmoid(score + (low + high) / 2)


def _with_quality(
    found: LabelIssues,
    codes: NDArray[np.int64],
    verified: NDArray[np.str_],
    quality: NDArray[np.float64],
    rates: NoiseRate,
    flag_share: float,
) -> LabelIssues:
    """The findings with other qualities, of which those of verified rows are not used."""
    given, rows = found.class_indices(found.given_label), np.arange(len(found))
    open_rows = verified == "no"
    quality = np.where(open_rows, quality, (verified == Answer.CONFIRMED.value).astype(float))
    posterior = _rescaled(found.posterior, given, quality)
    tensors = map(torch.from_numpy, (posterior, given, codes))
    posterior = fix_posterior(*tensors).numpy()
    flagged = np.zeros(len(found), dtype=bool)
    if found.trusted:
        judged = np.flatnonzero(open_rows)
        flagged[judged] = flag_issues(posterior[judged], given[judged], flag_share)
    others = posterior.copy()
    others[rows, given] = -1
    disputed = flagged & (others.max(1) > posterior[rows, given])
    wrong = disputed | (verified == Answer.WRONG.value)
    suggested = np.where(wrong, others.argmax(1), given)
    suggested = np.where(codes >= 0, codes, suggested)
    earlier = found.is_verified & (codes == UNREVIEWED)
    suggested[earlier] = found.class_indices(found.suggested_label)[earlier]
    return replace(
        found,
        suggested_label=found.classes[suggested],
        label_quality=quality,
        is_label_issue=flagged,
        suggested_probability=posterior[rows, suggested].astype(np.float64),
        posterior=posterior,
        noise_rate=rates,
        verified=verified,
        facts={**found.facts, "verified labels": f"{int((~open_rows).sum()):,}"},
    )


def answers(codes: NDArray[np.int64], given: NDArray[np.int64]) -> NDArray[np.str_]:
    """The value of the answer that each code stands for, [N]; "no" for rows not reviewed."""
    names = {UNREVIEWED: "no", WRONG: Answer.WRONG.value, NONE_OF_THEM: Answer.NONE.value}
    found = np.where(codes == given, Answer.CONFIRMED.value, Answer.CORRECTED.value)
    for code, name in names.items():
        found = np.where(codes == code, name, found)
    return found


def _rescaled(
    posterior: NDArray[np.float32], given: NDArray[np.int64], quality: NDArray[np.float64]
) -> NDArray[np.float32]:
    """The posterior with these probabilities of the given labels; the others keep their ratios."""
    rows = np.arange(len(given))
    others = posterior.astype(np.float64)
    others[rows, given] = 0
    total = others.sum(1, keepdims=True)
    # Where the model was certain, all other classes are equally likely.
    equal = np.ones_like(others)
    equal[rows, given] = 0
    others = np.where(total > 0, others, equal)
    others *= ((1 - quality) / others.sum(1))[:, None]
    others[rows, given] = quality
    return others.astype(np.float32)


def _design(
    quality: NDArray[np.float64], given: NDArray[np.int64], n_classes: int
) -> NDArray[np.float64]:
    ones = np.ones((len(quality), 1))
    return np.hstack([ones, _logit(quality)[:, None], np.eye(n_classes)[given]])


def _logit(quality: NDArray[np.float64]) -> NDArray[np.float64]:
    q = np.clip(quality, _CLIP, 1 - _CLIP)
    return np.asarray(np.log(q / (1 - q)))


def _sigmoid(score: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-np.logaddexp(0, -score))
