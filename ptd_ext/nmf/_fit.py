"""The iterations of a fit, and their results."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ptd_ext.nmf._data import Rows
from ptd_ext.nmf._init import NOT_FINITE, initial_parts, sample_rows
from ptd_ext.nmf._updates import Effort, Sums, squared_error, weight_sweep
from ptd_ext.utils.distributed import Ranks
from ptd_ext.utils.params import seed_of

if TYPE_CHECKING:
    from ptd_ext.nmf.estimator import SimplexNMF

# Momentum: the next weights are sought so far beyond the best parts, in steps of the parts.
_FIRST_MOMENTUM, _MAX_MOMENTUM = 0.3, 1.0


class Fit:
    """B factorisations of the same rows, from different starts; consistent at any moment."""

    parts: Tensor  # [B, R, D]
    weights: Tensor  # [B, N, R] of this rank's rows
    sums: Sums
    objectives: list[Tensor]  # [B] each
    error: Tensor  # squared, [B], of the current parts and weights, or of the last ones known
    n_iter: int
    interrupted: bool

    def __init__(self, rows: Rows, ranks: Ranks, settings: SimplexNMF) -> None:
        self._rows, self._ranks, self._settings = rows, ranks, settings
        count, n_init = settings.n_parts, settings.n_init
        seed = ranks.agree(seed_of(settings.random_state))
        sample = sample_rows(rows, ranks, count, seed)
        self._centre = sample.mean(0).to(rows.device)
        self.parts = initial_parts(sample, count, n_init, seed).to(rows.device, rows.dtype)
        self.weights = self.parts.new_full((n_init, rows.count(), count), 1 / count)
        self._spare = torch.empty_like(self.weights)
        self._momentum = self.parts.new_full((n_init,), _FIRST_MOMENTUM, dtype=torch.float64)
        self.sums = Sums.zeros(self.parts)
        self.objectives = []
        self.error = torch.full((n_init,), torch.nan, dtype=torch.float64, device=rows.device)
        self.n_iter = 0
        self.interrupted = False

    def run(self, effort: Effort, final: Effort) -> None:
        """Run all iterations, then compute final weights for the parts."""
        settings = self._settings
        bar = _progress_bar(settings.max_iter) if settings.progress else None
        try:
            for iteration in range(1, settings.max_iter + 1):
                (self._iterate if self.objectives else self._first_iteration)(effort)
                self.n_iter = iteration
                if bar is not None:
                    bar.set_postfix(error=f"{self.error.min().sqrt():.6g}")
                    bar.update()
                if self._has_converged():
                    break
            self._finish(final)
        except KeyboardInterrupt:
            self.interrupted = True
            warnings.warn(
                f"Interrupted: SimplexNMF keeps the result of {self.n_iter} iterations.",
                stacklevel=4,
            )
        finally:
            if bar is not None:
                bar.close()

    def best(self) -> int:
        """The index of the factorisation with the smallest objective."""
        penalty = self.sums.penalty(self.parts, self._settings.compactness)
        objective = self.error + penalty
        return int(objective.nan_to_num(torch.inf).argmin())

    def _first_iteration(self, effort: Effort) -> None:
        sums, spread = weight_sweep(
            self._rows, self.parts, self.weights, effort, self._centre, self._spare
        )
        self._spread = self._ranks.sum_(spread)
        if not self._spread.isfinite():
            raise ValueError(NOT_FINITE)
        sums = sums.over(self._ranks)
        self.objectives.append(self._objective(sums, self.parts))
        self._accept(sums, self._best_parts(sums))

    def _iterate(self, effort: Effort) -> None:
        """Find weights for parts extrapolated along their last step, then the best parts.

        Plain iterations crawl along narrow valleys. Beyond the best parts the objective may rise;
        a factorisation for which it does takes the plain iteration instead.
        """
        ahead = self._momentum[:, None, None] * (self.parts - self._before).double()
        sums = self._sweep((self.parts + ahead).to(self.parts.dtype), effort)
        parts = self._best_parts(sums)
        worse = ~(self._objective(sums, parts) <= self.objectives[-1])
        self._momentum = torch.where(
            worse, self._momentum / 2, (self._momentum * 1.1).clamp(max=_MAX_MOMENTUM)
        )
        if worse.any():
            kept, kept_parts, kept_weights = sums, parts, self._spare.clone()
            sums = self._sweep(self.parts, effort)
            parts = self._best_parts(sums)
            pick = worse[:, None, None]
            self._spare = torch.where(pick, self._spare, kept_weights)
            sums = Sums(*(torch.where(pick, a, b) for a, b in zip(sums, kept, strict=True)))
            parts = torch.where(pick, parts, kept_parts)
        self._accept(sums, parts)

    def _sweep(self, parts: Tensor, effort: Effort) -> Sums:
        """Find weights for these parts, in spare memory: the present ones stay until beaten."""
        sums, _ = weight_sweep(self._rows, parts, self.weights, effort, improved=self._spare)
        return sums.over(self._ranks)

    def _accept(self, sums: Sums, parts: Tensor) -> None:
        self._before, self.parts, self.sums = self.parts, parts, sums
        self.weights, self._spare = self._spare, self.weights
        self.error = sums.error(parts, self._centre, self._spread)
        self.objectives.append(self._objective(sums, parts))

    def _best_parts(self, sums: Sums) -> Tensor:
        return sums.best_parts(self.parts, self._settings.compactness)

    def _objective(self, sums: Sums, parts: Tensor) -> Tensor:
        error = sums.error(parts, self._centre, self._spread)
        return error + sums.penalty(parts, self._settings.compactness)

    def _has_converged(self) -> bool:
        drop = self.objectives[-2] - self.objectives[-1]
        tol = self._settings.tol
        return tol > 0 and bool((drop <= tol * self.objectives[0]).all())

    def _finish(self, final: Effort) -> None:
        sums, _ = weight_sweep(self._rows, self.parts, self.weights, final)
        self.sums = sums.over(self._ranks)
        self.error = self._ranks.sum_(squared_error(self._rows, self.parts, self.weights))


def _progress_bar(total: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError(
            'progress=True needs tqdm: install it with `pip install "ptd_ext[all]"`.'
        ) from error
    return tqdm(total=total, desc="SimplexNMF")
