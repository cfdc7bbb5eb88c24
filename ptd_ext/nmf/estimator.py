"""Parts of which every row of the data is a mixture (Eq. 1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptd_ext.nmf._data import Rows, open_rows
from ptd_ext.nmf._fit import Fit
from ptd_ext.nmf._init import NOT_FINITE, initial_parts, sample_rows
from ptd_ext.nmf._updates import Effort, Sums, weight_problem, weight_sweep
from ptd_ext.ops.devices import check_device
from ptd_ext.utils.arguments import check_integer, check_nonnegative, check_share
from ptd_ext.utils.distributed import Ranks
from ptd_ext.utils.params import NotFittedError, Params, seed_of
from ptd_ext.utils.threads import threads_for, using

MAX_PARTS = 256  # also of the settings and of learned parts


class SimplexNMF(Params):
    """X ≈ hW with parts W of free sign and every row of h on the simplex.

    Minimises ‖X − hW‖² by two alternating steps: all of W at once, from (hᵀh + εI) W = hᵀX; and for
    every row of h some steps of :func:`ptd_ext.ops.simplex_weights`, for parts moved a little
    further in the direction of their last step, which saves many iterations. The error never rises.
    Each row is a weighted mean of the parts, and a new row gets its weights from :meth:`transform`.

    The error alone does not determine the parts: parts that lie further apart can fit equally well.
    ``compactness`` λ adds λN/R · ‖W − x̄‖² to the objective, where x̄ is the mean of the data, and so
    selects the parts that lie closest together. Small values such as 1e-3 are enough.

    The conventions are scikit-learn's. X may be a tensor on any device, an array, or larger than
    memory: an ``np.memmap``, a sequence of batches such as a DataLoader, or a function that returns
    an iterator of batches. Results have the type of the input. Computations are in float64 for
    float64 input and in float32 for any other. Ctrl-C ends a fit and keeps its current result.
    Pickle and joblib save a fitted estimator, as they do scikit-learn's;
    :class:`ptd_ext.PartTransition` saves ``components_`` in a file from which no code can run.

    Args:
        n_parts: R, up to 256.
        max_iter: maximum number of iterations.
        tol: the fit stops when an iteration lowers the objective by less than this share of its
            first value; 0 never stops early.
        compactness: λ, see above.
        n_init: number of factorisations from different starts, side by side; the best is kept.
        inner_steps: steps of each row's weights in an iteration.
        transform_steps: maximum number of steps for final weights.
        weight_tol: weights are final when a step is no longer than this.
        forget_factor: in ``partial_fit``, the share of their importance that rows seen before keep
            at each call, since their weights belong to parts that have moved on.
        batch_size: number of rows processed at once; by default as many as suit the caches.
        random_state: a seed, or a generator of NumPy or torch.
        device: where to compute; by default where the data are.
        process_group: "world" or a group of torch.distributed, if every rank of it calls ``fit``
            with a share of the rows: all get the parts that one process would find for all rows in
            the order of the ranks.
        progress: whether to show a progress bar, which needs tqdm.

    Attributes:
        components_: W, [R, D].
        reconstruction_err_: ‖X − hW‖, the Frobenius norm.
        objectives_: the objective after the weights of the first iteration, then after each one.
        n_iter_: the number of iterations.
        interrupted_: whether Ctrl-C ended the last ``fit``.
        n_features_in_: D.

    Examples:
        >>> features = np.random.default_rng(0).random((50, 8))
        >>> nmf = ptd_ext.SimplexNMF(n_parts=3, random_state=0)
        >>> weights = nmf.fit_transform(features)
        >>> weights.shape, nmf.components_.shape
        ((50, 3), (3, 8))
        >>> bool(np.allclose(weights.sum(1), 1, atol=1e-4))
        True
    """

    components_: Any
    reconstruction_err_: float
    objectives_: list[float]
    n_iter_: int
    interrupted_: bool
    n_features_in_: int

    def __init__(
        self,
        n_parts: int,
        *,
        max_iter: int = 200,
        tol: float = 1e-4,
        compactness: float = 0.0,
        n_init: int = 1,
        inner_steps: int = 10,
        transform_steps: int = 500,
        weight_tol: float = 1e-6,
        forget_factor: float = 0.7,
        batch_size: int | None = None,
        random_state: Any = None,
        device: Any = None,
        process_group: Any = None,
        progress: bool = False,
    ) -> None:
        self.n_parts = n_parts
        self.max_iter = max_iter
        self.tol = tol
        self.compactness = compactness
        self.n_init = n_init
        self.inner_steps = inner_steps
        self.transform_steps = transform_steps
        self.weight_tol = weight_tol
        self.forget_factor = forget_factor
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device
        self.process_group = process_group
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> SimplexNMF:  # noqa: N803
        """Find the parts of X, [N, D]; y is ignored."""
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:  # noqa: N803
        """Find the parts of X and return its weights, [N, R]; y is ignored."""
        rows, weights = self._fit(X)
        return rows.like_data(weights)

    @torch.no_grad()
    def transform(self, X: Any) -> Any:  # noqa: N803
        """The weights of X, [N, R]: for each row the best mixture of the parts."""
        rows = self._open(X)
        parts = self._parts_for(rows)
        problem, matrix = weight_problem(parts[None])
        effort, weights = self._final_effort(), []
        for _, x in rows.batches():
            with using(self._threads(len(x), rows.n_features)):
                products = x @ matrix
                # A value that is not finite makes its row's products so, and these are fewer.
                if not products.isfinite().all():
                    raise ValueError(NOT_FINITE)
                weights.append(problem.solve(products[None], None, *effort)[0])
        return rows.like_data(torch.cat(weights) if weights else parts.new_empty(0, self.n_parts))

    def inverse_transform(self, X: Any) -> Any:  # noqa: N803
        """Rows from their weights: hW, [N, D]."""
        rows = open_rows(X, self.batch_size, self.device)
        parts = self._parts_for(None).to(rows.device, rows.dtype)
        if rows.n_features != len(parts):
            raise ValueError(
                f"X must have a column for each of {len(parts)} parts; got {rows.n_features}."
            )
        return rows.like_data(torch.cat([h @ parts for _, h in rows.batches()]))

    @torch.no_grad()
    def partial_fit(self, X: Any, y: Any = None) -> SimplexNMF:  # noqa: N803
        """Improve the parts with more rows, which need not be kept.

        Rows seen before count with the weights they had then, and less at each call. The first call
        draws its parts from the rows it is given; so give it more than a few.
        """
        rows = self._open(X)
        ranks = Ranks.of_group(self.process_group)
        if not hasattr(self, "components_"):
            seed = ranks.agree(seed_of(self.random_state))
            sample = sample_rows(rows, ranks, self.n_parts, seed)
            parts = initial_parts(sample, self.n_parts, 1, seed).to(rows.device, rows.dtype)
            self.n_iter_ = 0
            self._sums: Sums | None = None
        else:
            parts = self._parts_for(rows)[None]
        weights = parts.new_full((1, rows.count(), self.n_parts), 1 / self.n_parts)
        with using(self._threads(rows.count(), rows.n_features)):
            sums, _ = weight_sweep(rows, parts, weights, self._final_effort())
        sums = sums.over(ranks)
        if not sums.hx.isfinite().all():
            raise ValueError(NOT_FINITE)
        if self._sums is not None:
            before = (self.forget_factor * old.to(rows.device) for old in self._sums)
            sums = Sums(*map(torch.add, sums, before))
        self._keep(rows, sums.best_parts(parts, self.compactness)[0], sums)
        self.n_iter_ += 1
        return self

    @torch.no_grad()
    def _fit(self, data: Any) -> tuple[Rows, Tensor]:
        rows = self._open(data)
        with using(self._threads(self.n_init * rows.count(), rows.n_features)):
            fit = Fit(rows, Ranks.of_group(self.process_group), self)
            fit.run(Effort(self.inner_steps, 0.0), self._final_effort())
        best = fit.best()
        self._keep(rows, fit.parts[best], Sums(*(each[best : best + 1] for each in fit.sums)))
        self.reconstruction_err_ = float(fit.error[best]) ** 0.5
        self.objectives_ = [float(each[best]) for each in fit.objectives]
        self.n_iter_, self.interrupted_ = fit.n_iter, fit.interrupted
        return rows, fit.weights[best]

    def _open(self, data: Any) -> Rows:
        self._check_params()
        rows = open_rows(data, self.batch_size, self.device)
        check_device(torch.empty(0, device=rows.device))
        return rows

    def _keep(self, rows: Rows, parts: Tensor, sums: Sums) -> None:
        self.components_ = rows.like_data(parts)
        self.n_features_in_ = rows.n_features
        self._sums = sums

    def _parts_for(self, rows: Rows | None) -> Tensor:
        """W as a tensor, of the rows' type and device if there are any."""
        if not hasattr(self, "components_"):
            raise NotFittedError("This SimplexNMF is not fitted yet: call fit first.")
        parts = torch.as_tensor(self.components_)
        if rows is None:
            return parts
        if rows.n_features != parts.shape[1]:
            raise ValueError(
                f"X must have {parts.shape[1]} columns, as the rows that the parts were fitted to; "
                f"got {rows.n_features}. X has {rows.n_features} features, but SimplexNMF is "
                f"expecting {parts.shape[1]} features as input."
            )
        return parts.to(rows.device, rows.dtype)

    def _threads(self, rows: int, features: int) -> int:
        """The number of threads that pay for a pass over the rows."""
        products, steps = 2 * features, (self.inner_steps + 1) * (self.n_parts + 15)
        return threads_for(rows * self.n_parts * (products + steps))

    def _final_effort(self) -> Effort:
        return Effort(self.transform_steps, self.weight_tol)

    def _check_params(self) -> None:
        check_integer(self.n_parts, "n_parts", maximum=MAX_PARTS)
        for name in ("max_iter", "n_init", "inner_steps", "transform_steps"):
            check_integer(getattr(self, name), name)
        for name in ("tol", "weight_tol", "compactness"):
            check_nonnegative(getattr(self, name), name, finite=False)
        check_share(self.forget_factor, "forget_factor")
        if self.batch_size is not None:
            check_integer(self.batch_size, "batch_size")
