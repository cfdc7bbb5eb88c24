"""The transition matrices of the parts, from P(given label | x) of anchors (Eq. 4)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ptd_ext.transition._simplex_least_squares import kkt_residual, simplex_least_squares
from ptd_ext.transition.anchors import Anchors, anchor_positions
from ptd_ext.transition.estimate import EstimatedTransition
from ptd_ext.transition.pred_probs import PredProbs
from ptd_ext.utils.arguments import check_same_index
from ptd_ext.utils.ids import as_rows
from ptd_ext.utils.threads import threads_for, using

# Without a ridge, parts fit the anchors that are of another class.
RIDGE = 0.1

_NUMBERS = 1 << 23  # entries of the anchors' probabilities in one chunk


def fit_part_transitions(
    weights: Any,
    pred_probs: Any,
    anchors: Anchors | Sequence[Any],
    *,
    ids: Any = None,
    ridge: float = RIDGE,
) -> PartFit:
    r"""Part transitions P from anchors (Eq. 4), all classes at once, in float64.

    For class i let H [k, R] be the weights of its k anchors, T [k, C] their P(Ȳ | x) and
    Q₀ the class-dependent row, the mean of T. Then row i of Pʲ is row j of the Q that attains ::

        min  ‖H Q − T‖² / k + ridge · ‖Q − Q₀‖²    over Q [R, C] with rows on the simplex

    Args:
        weights: h(x), [N, R], one row per sample.
        pred_probs: P(Ȳ | x) of the same samples, as :func:`ptd_ext.find_anchors` takes them.
        anchors: from :func:`ptd_ext.find_anchors`, or for every class the ids of its anchors.
        ids: ids of the N samples; by default 0 … N−1.
        ridge: λ ≥ 0, the pull towards Q₀ per anchor. It keeps parts from fitting the anchors that
            are of another class, and decides where anchors leave a row open.

    Returns:
        The parts, the residual of the optimality conditions, and `diagnose()`.

    Examples:
        >>> generator = torch.Generator().manual_seed(0)
        >>> pred_probs = torch.rand(500, 3, generator=generator).softmax(1)
        >>> weights = torch.rand(500, 2, generator=generator).softmax(1)
        >>> anchors = ptd_ext.find_anchors(pred_probs)
        >>> fit = ptd_ext.fit_part_transitions(weights, pred_probs, anchors)
        >>> fit.parts.shape
        torch.Size([2, 3, 3])
    """
    if not ridge >= 0:
        raise ValueError(f"ridge must be at least 0; got {ridge}.")
    check_same_index(weights=weights, pred_probs=pred_probs, ids=ids)
    given = PredProbs(pred_probs, ids)
    weights = as_rows(weights, "weights", "R")
    if len(weights) != len(given):
        raise ValueError(f"weights must be [{len(given)}, R]; got {list(weights.shape)}.")
    dtype, device = weights.dtype, given.ids.device
    n_classes, weights = given.n_classes, weights.to(device)
    rows = anchor_positions(anchors, given.ids, n_classes)
    counts = [len(row) for row in rows]
    parts = torch.empty(weights.shape[1], n_classes, n_classes, dtype=dtype, device=device)
    fits: list[tuple[Tensor, ...]] = []
    for chunk in _chunks(counts, n_classes):
        chosen = torch.cat(rows[chunk])
        # Products with all anchors, and some twenty steps of the solver.
        n_parts, n_problems = len(parts), len(rows[chunk])
        steps = 20 * n_problems * n_parts * (n_parts / 2 + 5)
        with using(threads_for(n_parts * n_classes * (len(chosen) + steps))):
            # Zeros fill up classes of fewer anchors, and add nothing.
            mix, target = (
                pad_sequence(each.split(counts[chunk]), batch_first=True)
                for each in (weights[chosen].double(), given.take(chosen))
            )
            solution, *fit = _fit_classes(mix, target, counts[chunk], ridge)
        parts[:, chunk] = solution.transpose(0, 1).to(dtype)
        fits.append(tuple(fit))
    optimality, residual, values = (torch.cat(each) for each in zip(*fits, strict=True))
    return PartFit(
        parts=parts,
        class_prior=given.mean(),
        n_samples=len(given),
        weights=weights,
        kkt_residual=optimality,
        residual=residual,
        singular_values=values,
        counts=tuple(counts),
        ridge=float(ridge),
    )


def _chunks(counts: list[int], n_classes: int) -> Iterator[slice]:
    """Consecutive classes, few enough to hold the probabilities of their anchors at once."""
    first, largest = 0, 0
    for label, count in enumerate(counts):
        if first < label and max(largest, count) * (label + 1 - first) * n_classes > _NUMBERS:
            yield slice(first, label)
            first, largest = label, 0
        largest = max(largest, count)
    yield slice(first, len(counts))


def _fit_classes(
    mix: Tensor, target: Tensor, counts: list[int], ridge: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Fit P classes, from H [P, k, R] and T [P, k, C].

    Returns the rows [P, R, C], both residuals [P] and the singular values of H [P, R].
    """
    # Divided by the number of anchors, the problems are of order one.
    count = torch.tensor(counts, dtype=torch.float64, device=mix.device)[:, None, None]
    gram = mix.mT @ mix / count
    gram.diagonal(dim1=1, dim2=2).add_(ridge)
    right = mix.mT @ target / count + ridge * target.sum(1, keepdim=True) / count
    solution = simplex_least_squares(gram, right)
    error = torch.baddbmm(target, mix, solution, beta=-1).square_().sum((1, 2))
    values = torch.linalg.svdvals(mix)
    values = torch.nn.functional.pad(values, (0, mix.shape[2] - values.shape[1]))
    return solution, kkt_residual(gram, right, solution), (error / count[:, 0, 0]).sqrt(), values


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        return f"Diagnosis({sum(self.identified)} of {len(self.identified)} classes identified)"

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


@dataclass(frozen=True, kw_only=True)
class PartFit(EstimatedTransition):
    """The result of :func:`fit_part_transitions`: an :class:`EstimatedTransition` with residuals.

    Anchors do not estimate the class prior; `class_prior` is the mean of P(Ȳ | x) instead.

    Attributes:
        kkt_residual: for each class, [C]: max |Q − projection(Q − ∇f(Q))|, f being half the
            objective. Zero at the minimum only.
        residual: for each class, [C]: root of the mean over anchors of ‖h Q − t‖².
        singular_values: singular values of H for each class, [C, R].
        counts: number of anchors for each class.
        ridge: λ, per anchor.
    """

    kkt_residual: Tensor = field(repr=False, metadata={"shape": "C"})
    residual: Tensor = field(repr=False, metadata={"shape": "C"})
    singular_values: Tensor = field(repr=False, metadata={"shape": "CR"})
    counts: tuple[int, ...] = field(repr=False)
    ridge: float

    def diagnose(self) -> Diagnosis:
        """How well the anchors determine the row of each class; warns where they do not."""
        parts, values = len(self.parts), self.singular_values
        # The weights are known to the rounding of their type, not of the arithmetic here.
        sizes = torch.tensor(self.counts, device=values.device).clamp(min=parts)
        smallest = values[:, 0] * sizes * torch.finfo(self.parts.dtype).eps
        rank = (values > smallest[:, None]).sum(1)
        condition = torch.where(rank < parts, torch.inf, (values[:, 0] / values[:, -1]).square())
        shares = values.square() / values.square().sum(1, keepdim=True)
        short = [f"{label} ({r})" for label, r in enumerate(rank.tolist()) if r < parts]
        if short:
            chosen = "the ridge decides" if self.ridge > 0 else "one of many solutions was taken"
            more = ", …" if len(short) > 10 else ""
            warnings.warn(
                f"{len(short)} of {len(rank)} classes have fewer than {parts} independent anchors, "
                "one per part, so their rows of the parts are not identified and "
                f"{chosen}: class (independent anchors) {', '.join(short[:10])}{more}. "
                "Take more anchors or fewer parts.",
                stacklevel=2,
            )
        return Diagnosis(
            list(self.counts),
            condition.tolist(),
            rank.tolist(),
            torch.special.entr(shares).sum(1).exp().tolist(),
            self.residual.tolist(),
            self.kkt_residual.tolist(),
            (rank == parts).tolist(),
        )
