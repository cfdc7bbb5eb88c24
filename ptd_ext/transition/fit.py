"""The transition matrices of the parts, from the noisy posteriors of anchors (Eq. 4)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ptd_ext.transition._simplex_least_squares import kkt_residual, simplex_least_squares
from ptd_ext.transition.anchors import Anchors, anchor_positions
from ptd_ext.transition.posteriors import Posteriors
from ptd_ext.utils.ids import as_rows
from ptd_ext.utils.threads import threads_for, using

__all__ = ["RIDGE", "Diagnosis", "PartFit", "fit_part_transitions"]

# Without a ridge, parts fit the anchors that are of another class.
RIDGE = 0.1

_NUMBERS = 1 << 23  # posteriors of anchors that are worked on at a time


def fit_part_transitions(
    weights: Any,
    posteriors: Any,
    anchors: Anchors | Sequence[Any],
    *,
    ids: Any = None,
    ridge: float = RIDGE,
) -> PartFit:
    r"""Part transitions P from anchors (Eq. 4), all classes at once, in float64.

    For class i let H [k, R] be the weights of its k anchors, T [k, C] their noisy posteriors and
    Q₀ the class-dependent row, the mean of T. Then row i of Pʲ is row j of the Q that attains ::

        min  ‖H Q − T‖² / k + ridge · ‖Q − Q₀‖²    over Q [R, C] with rows on the simplex

    Args:
        weights: h(x), [N, R], one row per sample.
        posteriors: P(Ȳ | x) of the same samples, as :func:`ptd_ext.find_anchors` takes them.
        anchors: from :func:`ptd_ext.find_anchors`, or for every class the ids of its anchors.
        ids: of the N samples; by default 0 … N−1.
        ridge: λ ≥ 0, the pull towards Q₀ per anchor. It keeps parts from fitting the anchors that
            are of another class, and decides where anchors leave a row open.

    Returns:
        The parts, the residual of the optimality conditions, and `diagnose()`.
    """
    if not ridge >= 0:
        raise ValueError(f"ridge must be at least 0; got {ridge}.")
    posterior = Posteriors(posteriors, ids)
    weights = as_rows(weights, "weights", "R")
    if len(weights) != len(posterior):
        raise ValueError(f"weights must be [{len(posterior)}, R]; got {list(weights.shape)}.")
    dtype, device = weights.dtype, posterior.ids.device
    classes, weights = posterior.classes, weights.to(device)
    rows = anchor_positions(anchors, posterior.ids, classes)
    counts = [len(row) for row in rows]
    parts = torch.empty(weights.shape[1], classes, classes, dtype=dtype, device=device)
    fits: list[_ClassFits] = []
    for chunk in _chunks(counts, classes):
        chosen = torch.cat(rows[chunk])
        with using(_threads(len(chosen), len(rows[chunk]), *parts.shape[:2])):
            mix = _stack(weights[chosen].double(), counts[chunk])
            target = _stack(posterior.take(chosen), counts[chunk])
            solution, fit = _fit_classes(mix, target, counts[chunk], ridge)
        parts[:, chunk] = solution.transpose(0, 1).to(dtype)
        fits.append(fit)
    return PartFit(
        parts=parts,
        kkt_residual=torch.cat([fit.kkt_residual for fit in fits]),
        residual=torch.cat([fit.residual for fit in fits]),
        singular_values=tuple(values for fit in fits for values in fit.singular_values),
        counts=tuple(counts),
        ridge=float(ridge),
    )


class _ClassFits(NamedTuple):
    """Residuals and singular values of the fits of P classes."""

    kkt_residual: Tensor  # [P]
    residual: Tensor  # [P]
    singular_values: Tensor  # of H, [P, min(k, R)]


def _chunks(counts: list[int], classes: int) -> Iterator[slice]:
    """Consecutive classes, few enough for the posteriors of their anchors to be held at once."""
    first, most = 0, 0
    for label, count in enumerate(counts):
        if first < label and max(most, count) * (label + 1 - first) * classes > _NUMBERS:
            yield slice(first, label)
            first, most = label, 0
        most = max(most, count)
    yield slice(first, len(counts))


def _threads(anchors: int, problems: int, parts: int, classes: int) -> int:
    """The number of threads that pay for the products and some twenty steps of the solver."""
    steps = 20 * problems * parts * (parts / 2 + 5)
    return threads_for(parts * classes * (anchors + steps))


def _stack(rows: Tensor, counts: list[int]) -> Tensor:
    """Rows of class after class as [P, k, …]; zeros fill up classes of fewer, and add nothing."""
    return pad_sequence(rows.split(counts), batch_first=True)


def _fit_classes(
    mix: Tensor, target: Tensor, counts: list[int], ridge: float
) -> tuple[Tensor, _ClassFits]:
    """Rows [P, R, C] of P classes, from H [P, k, R] and T [P, k, C]."""
    # Divided by the number of anchors, the problems are of order one.
    count = torch.tensor(counts, dtype=torch.float64, device=mix.device)[:, None, None]
    gram = mix.mT @ mix / count
    gram.diagonal(dim1=1, dim2=2).add_(ridge)
    right = mix.mT @ target / count + ridge * target.sum(1, keepdim=True) / count
    solution = simplex_least_squares(gram, right)
    error = torch.baddbmm(target, mix, solution, beta=-1).square_().sum((1, 2))
    return solution, _ClassFits(
        kkt_residual(gram, right, solution),
        (error / count[:, 0, 0]).sqrt(),
        torch.linalg.svdvals(mix),
    )


@dataclass(frozen=True)
class Diagnosis:
    """The evidence for every class's row, one entry per class.

    Attributes:
        anchors: how many were used.
        condition: condition number of the Gram matrix HᵀH; inf where it is singular.
        rank: number of independent anchors, the numerical rank of H.
        effective_rank: exp of the entropy of HᵀH's normalised eigenvalues, from 1 to R: how many
            directions the anchors spread over.
        residual: root of the mean over anchors of ‖h Q − t‖².
        kkt_residual: how far from optimal the row is.
        identified: whether there are R independent anchors.
    """

    anchors: list[int]
    condition: list[float]
    rank: list[int]
    effective_rank: list[float]
    residual: list[float]
    kkt_residual: list[float]
    identified: list[bool]

    def __str__(self) -> str:
        lines = ["class  anchors  condition  rank  effective  residual  KKT residual"]
        for label, known in enumerate(self.identified):
            lines.append(
                f"{label:5}  {self.anchors[label]:7}  {self.condition[label]:9.2e}  "
                f"{self.rank[label]:4}  {self.effective_rank[label]:9.2f}  "
                f"{self.residual[label]:8.4f}  {self.kkt_residual[label]:12.1e}"
                + ("" if known else "  not identified")
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class PartFit:
    """The result of :func:`fit_part_transitions`.

    Attributes:
        parts: P, [R, C, C], of the type of the weights.
        kkt_residual: of every class, [C]: max |Q − projection(Q − ∇f(Q))|, f being half the
            objective. Zero at the minimum only.
        residual: of every class, [C]: root of the mean over anchors of ‖h Q − t‖².
        singular_values: of every class's H.
        counts: anchors of every class.
        ridge: λ, per anchor.
    """

    parts: Tensor = field(repr=False)
    kkt_residual: Tensor
    residual: Tensor
    singular_values: tuple[Tensor, ...] = field(repr=False)
    counts: tuple[int, ...] = field(repr=False)
    ridge: float

    def diagnose(self) -> Diagnosis:
        """Report how well the anchors determine every class's row; warns where they do not."""
        parts = len(self.parts)
        condition, rank, effective = [], [], []
        for values, count in zip(self.singular_values, self.counts, strict=True):
            eigenvalues = values.square()
            # The weights are known to the rounding of their type, not of the arithmetic here.
            smallest = values[0] * max(count, parts) * torch.finfo(self.parts.dtype).eps
            rank.append(int((values > smallest).sum()))
            singular = rank[-1] < parts
            condition.append(torch.inf if singular else (eigenvalues[0] / eigenvalues[-1]).item())
            share = eigenvalues / eigenvalues.sum()
            effective.append(torch.special.entr(share).sum().exp().item())
        identified = [r == parts for r in rank]
        self._warn(rank)
        return Diagnosis(
            list(self.counts),
            condition,
            rank,
            effective,
            self.residual.tolist(),
            self.kkt_residual.tolist(),
            identified,
        )

    def _warn(self, rank: list[int]) -> None:
        parts = len(self.parts)
        short = [f"{label} ({r})" for label, r in enumerate(rank) if r < parts]
        if not short:
            return
        chosen = "the ridge decides" if self.ridge > 0 else "one of many solutions was taken"
        warnings.warn(
            f"{len(short)} of {len(rank)} classes have fewer than {parts} independent anchors, one "
            f"per part, so their rows of the parts are not identified and {chosen}: class "
            f"(independent anchors) {', '.join(short[:10])}{', …' if len(short) > 10 else ''}. "
            "Take more anchors or fewer parts.",
            stacklevel=3,
        )
