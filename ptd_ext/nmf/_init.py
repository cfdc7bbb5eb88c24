"""Initial parts: rows of the data that lie far apart, as in k-means++."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.nmf._data import Rows
from ptd_ext.utils.distributed import Ranks

NOT_FINITE = "X holds NaN or infinity, or numbers whose squares are not finite: scale it."
_SAMPLE_PER_PART, _LARGEST_SAMPLE = 64, 4096


def sample_rows(rows: Rows, ranks: Ranks, n_parts: int, seed: int) -> Tensor:
    """Rows to choose the parts from, [m, D] in float64 on the CPU.

    The choice depends on the seed and the number of rows, not on batches or ranks.
    """
    begin, total = ranks.first_row(rows.count(), rows.device)
    if total == 0:
        raise ValueError("X has no rows.")
    size = min(_SAMPLE_PER_PART * n_parts, _LARGEST_SAMPLE)
    generator = torch.Generator().manual_seed(seed)
    if total > size:
        chosen = torch.randint(total, (size,), generator=generator).unique()
    else:
        chosen = torch.arange(total)
    mine = (chosen >= begin) & (chosen < begin + rows.count())
    sample = torch.zeros(len(chosen), rows.n_features, dtype=torch.float64, device=rows.device)
    if mine.any():
        sample[mine.to(rows.device)] = rows.take(chosen[mine] - begin).double()
    sample = ranks.sum_(sample).cpu()
    if not sample.square().sum().isfinite():
        raise ValueError(NOT_FINITE)
    return sample


def initial_parts(sample: Tensor, n_parts: int, n_init: int, seed: int) -> Tensor:
    """Parts [n_init, R, D], rows of the sample.

    Each is drawn in proportion to its squared distance from the nearest one drawn before it.
    """
    return torch.stack([_far_apart(sample, n_parts, seed + start) for start in range(n_init)])


def _far_apart(sample: Tensor, n_parts: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    moved = sample - sample.mean(0)  # so that few digits cancel in the distances
    squares = moved.square().sum(-1)
    distance = torch.ones_like(squares)
    chosen: list[int] = []
    for _ in range(n_parts):
        if not distance.any():  # all rows are parts already: any will do
            distance = torch.ones_like(distance)
        new = int(torch.multinomial(distance, 1, generator=generator))
        away = (squares - 2 * moved @ moved[new] + squares[new]).clamp(min=0)
        distance = torch.minimum(distance, away) if chosen else away
        chosen.append(new)
        distance[chosen] = 0
    return sample[chosen]
