"""Rows judged by networks that were trained without them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptd_ext.label_issues._parameters import LEAST_ROWS, check_folds
from ptd_ext.label_issues.findings import LabelIssues, judge
from ptd_ext.label_issues.inputs.labels import encode_labels
from ptd_ext.label_issues.training.progress import over_folds
from ptd_ext.ops.functional import clean_posterior

if TYPE_CHECKING:
    from ptd_ext.label_issues.classifier import PTDClassifier

__all__ = ["Fold", "cross_fitted", "fold_rows"]

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


def fold_rows(y: Any, folds: int, seed: int) -> list[Fold]:
    """The positions to train on and to judge, of every fold.

    Raises ValueError where a fold leaves too little to train on.
    """
    from sklearn.model_selection import KFold

    codes = encode_labels(y).codes
    check_folds(folds, len(codes))
    splitter = KFold(folds, shuffle=True, random_state=seed % 2**32)
    found = list(splitter.split(codes[:, None]))
    for number, (train, _) in enumerate(found, 1):
        classes = len(np.unique(codes[train]))
        if len(train) < LEAST_ROWS or classes < 2:
            raise ValueError(
                f"cross_fit must leave at least {LEAST_ROWS} rows of two classes to train on; with "
                f"{folds} folds, fold {number} leaves {len(train)} of {classes}. Take another "
                "number of folds, or 0."
            )
    return found


def cross_fitted(
    model: PTDClassifier,
    X: Any,  # noqa: N803
    y: Any,
    folds: list[Fold],
) -> LabelIssues:
    """The findings of a fitted model, with P(Y | x) of every row from a fit without its fold.

    T(x) stays that of the model, which was fitted to all rows.
    """
    from sklearn.base import clone

    count = len(model.label_issues_)
    found = model.label_issues_
    labels = encode_labels(y, model.classes_.tolist())
    index = {label: position for position, label in enumerate(model.classes_.tolist())}
    probabilities = np.zeros((count, len(model.classes_)))
    for train, held_out in over_folds(folds, len(folds), model.progress):
        part = clone(model).fit(_rows(X, train), _rows(y, train))
        columns = [index[label] for label in part.classes_.tolist()]
        probabilities[np.ix_(held_out, columns)] = part.predict_proba(_rows(X, held_out))
    logits = torch.from_numpy(probabilities).clamp(min=1e-30).log()
    codes, inputs = torch.from_numpy(labels.codes), model.encode(X)
    posterior = torch.zeros_like(logits)
    for member in model.members_:
        weights, parts = member.outputs(inputs)[1], member.transition
        posterior += clean_posterior(
            logits, codes, weights.double(), parts.parts.double(), parts.slack
        )
    posterior /= len(model.members_)
    return judge(
        posterior.float().numpy(), labels, found.transition,
        ids=found.ids, flag_share=model.flag_share, trusted=found.trusted, parts=found.parts,
        part_shares=found.part_shares, warnings=found.warnings,
        facts={**found.facts, "folds": str(len(folds))}, curves=found.curves,
    )  # fmt: skip


def _rows(values: Any, positions: Any) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[positions]
    if hasattr(values, "tocsr"):
        return values.tocsr()[positions]
    if isinstance(values, (list, tuple)):
        return [copy.copy(values[position]) for position in positions]
    return values[positions]
