"""Splits rows into those to train on and those held out for validation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.training_data import TrainingData

_VALIDATION = 200  # rows that model selection needs, if there are enough


def validation_share(rows: int) -> float:
    """The share of rows to hold out for model selection: 0.1, more where they are few."""
    return min(0.3, max(0.1, _VALIDATION / max(1, rows)))


def hold_out(
    labels: Tensor,
    validation_fraction: float | None,
    seed: int,
    *,
    by_class: bool = True,
    limit: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Positions to train on and positions to hold out, at random, both in rising order.

    Args:
        labels: class indices, [N].
        validation_fraction: the share to hold out; None for :func:`validation_share`.
        seed: the seed of the choice.
        by_class: hold out the share of each class, which keeps a row to train on; if no class has a
            second row, the first row is in both parts. Otherwise the share of all rows, as the
            paper does.
        limit: without `by_class`, the number of rows to take, at random.
    """
    generator = torch.Generator().manual_seed(seed)
    if not by_class:
        order = torch.randperm(len(labels), generator=generator)[:limit]
        share = validation_share(len(order)) if validation_fraction is None else validation_fraction
        held = max(1, round(share * len(order)))
        return order[held:].sort().values, order[:held].sort().values
    share = validation_share(len(labels)) if validation_fraction is None else validation_fraction
    held_out = []
    for label in range(int(labels.max()) + 1):
        rows = (labels == label).nonzero()[:, 0]
        count = max(0, min(round(share * len(rows)), len(rows) - 1))
        held_out.append(rows[torch.randperm(len(rows), generator=generator)[:count]])
    validation = torch.cat(held_out).sort().values
    if not len(validation):
        return torch.arange(len(labels)), torch.zeros(1, dtype=torch.int64)
    kept = torch.ones(len(labels), dtype=torch.bool)
    kept[validation] = False
    return kept.nonzero()[:, 0], validation


def with_copies(positions: tuple[Tensor, Tensor], groups: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of which copies are on one side: that of the first of them.

    Args:
        positions: positions to train on, and positions to hold out, both in rising order.
        groups: a number for each row, the same for copies, [N]; see
            :func:`ptd_ext.engine.rows.copies.groups_of_copies`.
    """
    train, validation = positions
    if len(groups.unique()) == len(groups):
        return positions
    first = torch.full_like(groups, len(groups)).scatter_reduce_(
        0, groups, torch.arange(len(groups)), "amin"
    )[groups]
    held = torch.zeros(len(groups), dtype=torch.bool)
    held[validation] = True
    held = held[first]
    if not held.any() or held.all():
        return train, validation
    return (~held).nonzero()[:, 0], held.nonzero()[:, 0]


def split_data(
    stored: Any,
    labels: Tensor,
    names: tuple[str, ...],
    preprocessing: Preprocessing,
    positions: tuple[Tensor, Tensor],
    *,
    channels_last: bool = False,
    embedding: Tensor | None = None,
) -> TrainingData:
    """The rows at two sets of positions, with their labels.

    Args:
        stored: all rows, as :meth:`Preprocessing.store` returns them.
        labels: class indices of all rows, [N].
        names: the names of the classes, [C].
        preprocessing: how stored rows become what a network takes.
        positions: positions to train on, and positions to validate on.
        channels_last: true for the memory format of images.
        embedding: vectors of the words that token rows hold, [V, D].
    """
    train, validation = (
        Inputs(stored, where, preprocessing, channels_last=channels_last) for where in positions
    )
    return TrainingData(
        train,
        validation,
        labels[positions[0]],
        labels[positions[1]],
        names,
        preprocessing.shape,
        embedding,
    )
