"""A model at chance says nothing of single labels."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["CLEARLY", "chance_warning"]

CLEARLY = 2.0  # standard errors by which one thing must be better than another


def chance_warning(model: str, accuracy: float, codes: Tensor, rows: int) -> str | None:
    """A sentence if a model hardly beats the most frequent label, None if it clearly does.

    Args:
        model: what predicts, for the sentence.
        accuracy: the share of given labels that it predicts, of rows it was not trained on.
        codes: class indices of all given labels, [N].
        rows: how many rows the accuracy is taken over.
    """
    frequent = torch.bincount(codes).max().item() / len(codes)
    error = (frequent * (1 - frequent) / rows) ** 0.5
    if accuracy > frequent + CLEARLY * error:
        return None
    return (
        f"{model} predicts {accuracy:.1%} of the given labels of {rows:,} rows it was not trained "
        f"on; always naming the most frequent one would predict {frequent:.1%}. Nothing is "
        "flagged, since a model at chance says nothing of single labels. Try better features, "
        "more rows or another model."
    )
