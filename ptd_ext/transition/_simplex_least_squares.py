r"""Least squares with rows on the simplex, many problems at once, to full precision.

    min  f(Q) = ½ ⟨Q, G Q⟩ − ⟨B, Q⟩   over Q [R, K] with Q ≥ 0 and Q 1 = 1,    G [R, R] ⪰ 0

`ops/_interior_point.py` derives the method; on the CPU a C++ operator takes the same steps, with
the columns of Q in the lanes of vectors.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.ops import reference
from ptd_ext.ops.simplex import simplex_projection


def simplex_least_squares(gram: Tensor, right: Tensor) -> Tensor:
    """The minimisers Q, float64 [P, R, K], for `gram` G [P, R, R] and `right` B [P, R, K].

    G and B should be of order one. The last step is a projected gradient step, which puts the rows
    on the simplex exactly and turns what vanishes into exact zeros.
    """
    solve = torch.ops.ptd_ext.simplex_least_squares
    rows = (solve if right.device.type == "cpu" else reference.simplex_least_squares)(gram, right)
    largest = torch.linalg.eigvalsh(gram)[:, -1].clamp(min=1e-300)[:, None, None]
    return simplex_projection(rows - (gram @ rows - right) / largest)


def kkt_residual(gram: Tensor, right: Tensor, rows: Tensor) -> Tensor:
    """The largest |Q − projection(Q − ∇f(Q))| of every problem, [P]: zero at the minimum only."""
    moved = simplex_projection(rows - (gram @ rows - right))
    return (rows - moved).abs().amax((1, 2))
