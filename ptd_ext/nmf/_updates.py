"""The two steps of X ≈ hW, each of them convex: h on the simplex for given W, and W for given h.

After a sweep only hᵀh and hᵀX of the rows are kept, so that they may come in batches and lie on
several ranks. All tensors have a leading dimension B: several factorisations at once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ptd_ext.nmf._data import Rows
from ptd_ext.ops.simplex import WeightProblem
from ptd_ext.utils.distributed import Ranks


class Effort(NamedTuple):
    """Limits of a weight step: see :func:`ptd_ext.ops.simplex_weights`."""

    max_iter: int
    tol: float


class Sums(NamedTuple):
    """The statistics of the rows and their weights that a part step needs."""

    hh: Tensor  # [B, R, R], hᵀh
    hx: Tensor  # [B, R, D], hᵀX

    @classmethod
    def zeros(cls, parts: Tensor) -> Sums:
        """Return the sums over no rows."""
        hx = torch.zeros_like(parts, dtype=torch.float64)
        return cls(torch.zeros_like(hx @ hx.mT), hx)

    def over(self, ranks: Ranks) -> Sums:
        """Add up the sums of all ranks, in one message of B·R·(R + D) numbers."""
        both = ranks.sum_(torch.cat([self.hh, self.hx], -1))
        return Sums(*both.split([self.hh.shape[-1], self.hx.shape[-1]], -1))

    def best_parts(self, parts: Tensor, compactness: float = 0.0) -> Tensor:
        """The W that minimises ‖X − hW‖² + λ‖W − x̄‖² + ε‖W − parts‖².

        From (hᵀh + (λ + ε) I) W = hᵀX + λx̄ + ε·parts. ε is the rounding error of hᵀh. It matters
        only where the data leave W open, as for a part that no row uses, which stays as it is. So
        the objective never rises.
        """
        old = parts.double()
        pull, mean = self._pull(compactness), self._mean()
        trace = self.hh.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
        ridge = pull + torch.finfo(parts.dtype).eps * trace
        eye = torch.eye(old.shape[1], dtype=old.dtype, device=old.device)
        slope = self.hx - self.hh @ old + pull * (mean - old)
        return (old + torch.linalg.solve(self.hh + ridge * eye, slope)).to(parts.dtype)

    def error(self, parts: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
        """‖X − hW‖² [B], given a point and the sum of the squared distances to it.

        Rows of h sum to one, so that X and W may be moved to that point, which leaves fewer digits
        to cancel: ‖X‖² − 2⟨W, hᵀX⟩ + ⟨WWᵀ, hᵀh⟩.
        """
        moved = parts.double() - centre
        hx = self.hx - self.hh.sum(-1, keepdim=True) * centre
        squares = (moved @ moved.mT * self.hh).sum((-1, -2))
        return (spread - 2 * (moved * hx).sum((-1, -2)) + squares).clamp(min=0)

    def penalty(self, parts: Tensor, compactness: float) -> Tensor:
        """λ‖W − x̄‖² [B]."""
        squares = (parts.double() - self._mean()).square().sum((-1, -2))
        return self._pull(compactness)[:, 0, 0] * squares

    def _pull(self, compactness: float) -> Tensor:
        """λ [B, 1, 1], in proportion to the rows that a part has on average."""
        return compactness / self.hh.shape[-1] * self.hh.sum((-1, -2), keepdim=True)

    def _mean(self) -> Tensor:
        """The mean x̄ of the rows, [B, 1, D]: rows of h sum to one, so that Σhᵀh = N."""
        return self.hx.sum(1, keepdim=True) / self.hh.sum((-1, -2), keepdim=True)


def weight_problem(parts: Tensor) -> tuple[WeightProblem, Tensor]:
    """Prepare a weight step from W [B, R, D]: the problem, and V [D, B·R] with b = XV.

    Rows of h sum to one, so W and X may both be moved by the mean part w̄: V holds W − w̄, and the
    part of b that does not depend on X, −(W − w̄)w̄, is in the problem.
    """
    mean = parts.mean(1, keepdim=True)
    moved = parts - mean
    problem = WeightProblem.of(moved @ moved.mT)
    constant = problem.step[:, None] * (moved @ mean.mT)[..., 0]
    return problem._replace(shift=problem.shift - constant), moved.flatten(0, 1).mT.contiguous()


def weight_sweep(
    rows: Rows,
    parts: Tensor,
    weights: Tensor,
    effort: Effort,
    centre: Tensor | None = None,
    improved: Tensor | None = None,
) -> tuple[Sums, Tensor]:
    """One pass over the rows: their weights [B, N, R] are improved and summed up.

    They are written to `improved`, or without it in place. With `centre`, the sum of the squared
    distances of all rows to it comes second.
    """
    improved = weights if improved is None else improved
    problem, matrix = weight_problem(parts)
    batch, count, _ = parts.shape
    sums, spread = Sums.zeros(parts), parts.new_zeros((), dtype=torch.float64)
    for at, x in rows.batches():
        linear = (x @ matrix).view(len(x), batch, count).transpose(0, 1)
        h = problem.solve(linear, weights[:, at], *effort)
        improved[:, at] = h
        sums.hh.add_(h.mT @ h)
        sums.hx.add_(h.mT @ x)
        if centre is not None:
            spread += _squares(x - centre.to(x.dtype))
    return sums, spread


def squared_error(rows: Rows, parts: Tensor, weights: Tensor) -> Tensor:
    """‖X − hW‖² of each factorisation [B], with no digits cancelled."""
    total = parts.new_zeros(len(parts), dtype=torch.float64)
    for at, x in rows.batches():
        for which, (h, w) in enumerate(zip(weights[:, at], parts, strict=True)):
            total[which] += _squares(torch.addmm(x, h, w, alpha=-1))
    return total


def _squares(rows: Tensor) -> Tensor:
    """Sum of squares: each row in the type of the batch, then all in float64."""
    return torch.linalg.vector_norm(rows, dim=-1).double().square().sum()
