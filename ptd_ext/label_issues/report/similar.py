"""The most similar rows of each row, which the page shows beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptd_ext.transition.nearest import nearest_neighbours

_SHOWN = 3  # most similar rows beside a row


def similar_rows(features: Any, rows: int) -> NDArray[np.int64]:
    """Positions of the most similar rows by cosine similarity, the nearest first, [N, k].

    Args:
        features: embeddings of the rows, [N, D], finite.
        rows: the expected N.
    """
    embeddings = torch.as_tensor(np.asarray(features), dtype=torch.float32)
    if embeddings.dim() != 2 or len(embeddings) != rows or not embeddings.isfinite().all():
        raise ValueError(
            f"features must be finite and of shape [{rows:,}, D]; got {list(embeddings.shape)}."
        )
    return nearest_neighbours(embeddings, min(_SHOWN, rows - 1)).numpy()
