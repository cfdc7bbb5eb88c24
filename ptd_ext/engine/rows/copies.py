"""Copies of rows, such as those of a join or of an augmentation.

A copy in another part of a split, or among a row's neighbours, confirms any label.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MAX_COPIES = 20  # a value that more rows share is common, as in tables with few categories
_DIGEST = 16  # bytes


def groups_of_copies(rows: Tensor, labels: Tensor | None = None) -> NDArray[np.int64]:
    """A number for each row from 0 on, the same for copies, [N].

    Args:
        rows: [N, …].
        labels: class indices, [N]; rows of different labels are then no copies of each other.
    """
    values = (rows.flatten(1) + 0).contiguous()  # −0 becomes 0
    extra = torch.zeros(len(rows), dtype=torch.int64) if labels is None else labels
    found: dict[bytes, int] = {}
    groups = np.empty(len(rows), dtype=np.int64)
    for row, (value, label) in enumerate(zip(values.numpy(), extra.tolist(), strict=True)):
        key = blake2b(value.data, digest_size=_DIGEST, salt=label.to_bytes(8, "little")).digest()
        groups[row] = found.setdefault(key, len(found))
    common = np.bincount(groups, minlength=1)[groups] > _MAX_COPIES
    groups[common] = len(found) + np.arange(common.sum())
    return np.unique(groups, return_inverse=True)[1]
