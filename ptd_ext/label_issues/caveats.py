"""Caveats about an estimated T(x), for the warnings of the findings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.engine.rows.columns import Columns
from ptd_ext.label_issues.rates import NoiseRate
from ptd_ext.transition.estimate import EstimatedTransition
from ptd_ext.utils.bounded_files import shortened

_MAX_CAVEATS = 3  # listed one by one
_WIDE = 0.2  # range of a noise rate that is of little use
_LEAKS = 0.995  # share of given labels that a column predicts if it holds them
_BINS = 50  # that a column of numbers is cut into


def transition_caveats(
    parts: Tensor,
    class_prior: Tensor,
    n_samples: int,
    weights: Tensor | None = None,
    *,
    class_names: Sequence[str],
) -> tuple[str, ...]:
    """Caveats about rows of T(x) that the data hardly determine, the first few one by one.

    Args:
        parts: P, [R, C, C]; one matrix, [1, C, C], where T does not depend on x.
        class_prior: shares or counts of the true classes, [C].
        n_samples: the number of samples that the estimate comes from.
        weights: h(x) of the samples, [N, R].
        class_names: the names of the classes, [C]; long ones are shortened.
    """
    names = [shortened(name) for name in class_names]
    estimate = EstimatedTransition(
        parts=parts, class_prior=class_prior, n_samples=n_samples, weights=weights
    )
    caveats = [each[:1].upper() + each[1:] for each in estimate.summary(names).caveats]
    if len(caveats) > _MAX_CAVEATS:
        more = len(caveats) - _MAX_CAVEATS
        caveats[_MAX_CAVEATS:] = [f"There are {more} more caveats about the rows of other classes."]
    return tuple(caveats)


def copies_caveats(groups: NDArray[np.int64], codes: NDArray[np.int64]) -> tuple[str, ...]:
    """Caveats about copies of rows, and about those with different labels.

    Args:
        groups: a number for each row, the same for copies, [N].
        codes: class indices of the given labels, [N].
    """
    rows, distinct = len(groups), len(np.unique(groups))
    if distinct == rows:
        return ()
    found = [
        f"{rows - distinct:,} of {rows:,} rows are copies of others. They count once; delete them "
        "if they come from a join."
    ]
    order = np.lexsort((codes, groups))
    differ = (np.diff(groups[order]) == 0) & (np.diff(codes[order]) != 0)
    conflicts = np.unique(groups[order][1:][differ])
    if len(conflicts):
        pair = order[np.flatnonzero(differ)[0] :][:2]
        count = int(np.isin(groups, conflicts).sum())
        found.append(
            f"{count:,} rows have copies with another label, such as rows {pair[0]} and {pair[1]} "
            "(counted from 0): the labels of such rows cannot all be right."
        )
    return tuple(found)


def range_caveat(rates: NoiseRate, names: Sequence[str]) -> tuple[str, ...]:
    """A caveat if the labels leave the noise rate open, with the classes that are least clear."""
    overall = rates.overall
    if not overall.known or overall.high - overall.low <= _WIDE:
        return ()
    known = [(each.low - each.high, name) for each, name in zip(rates.by_class, names, strict=True)
             if each.known]  # fmt: skip
    unclear = ", ".join(shortened(name) for _, name in sorted(known)[:_MAX_CAVEATS])
    return (
        f"The labels leave the noise rate open, between {overall.low:.0%} and {overall.high:.0%}: "
        "the model errs too often, or there are too few rows, to tell wrong labels from its own "
        f"errors, most of all for {unclear}. Try features of a pretrained network, or verify the "
        "labels of a random sample.",
    )


def leaking_columns(encoded: Tensor, columns: Columns, codes: NDArray[np.int64]) -> tuple[str, ...]:
    """A caveat if columns predict nearly all given labels, wrong ones too, by themselves.

    Args:
        encoded: the columns as numbers, [N, width].
        columns: what became of them.
        codes: class indices of the given labels, [N].
    """
    found, start, rows = [], 0, len(codes)
    if np.bincount(codes).max() >= _LEAKS * rows:
        return ()
    for entry in columns.entries:
        values = encoded[:, start : start + entry.width].numpy()
        start += entry.width
        if not entry.width or entry.kind == "text":
            continue
        if entry.kind == "category":
            groups = values.argmax(1)
        else:
            groups = np.unique(values[:, 0], return_inverse=True)[1]
            if groups.max() >= _BINS:
                groups = values[:, 0].argsort().argsort() * _BINS // rows
        counts = np.zeros((groups.max() + 1, codes.max() + 1))
        np.add.at(counts, (groups, codes), 1)
        if counts.max(1).sum() >= _LEAKS * rows and len(counts) < rows / 10:
            found.append(shortened(entry.name))
    if not found:
        return ()
    names = ", ".join(found[:_MAX_CAVEATS])
    return (
        f"Nearly all labels follow from one column alone: {names}. If it was made from the label, "
        "wrong labels cannot be seen: name it in ignore.",
    )
