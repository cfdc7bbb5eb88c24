"""Rows judged by networks that were trained without them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptd_ext.engine.model.progress import over_folds
from ptd_ext.engine.rows.labels import encode_labels
from ptd_ext.engine.rows.raw_rows import take_rows
from ptd_ext.label_issues._parameters import MIN_ROWS, check_folds
from ptd_ext.label_issues.calibration import calibrate
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.judging import findings_of
from ptd_ext.label_issues.neighbour_evidence import SMOOTHING

if TYPE_CHECKING:
    from ptd_ext.label_issues.classifier import PTDClassifier

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
        if len(train) < MIN_ROWS or classes < 2:
            raise ValueError(
                f"cross_fit must leave at least {MIN_ROWS} rows of two classes to train on; with "
                f"{folds} folds, fold {number} leaves {len(train)} of {classes}. Choose another "
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
        part = clone(model).fit(take_rows(X, train), take_rows(y, train))
        columns = [index[label] for label in part.classes_.tolist()]
        probabilities[np.ix_(held_out, columns)] = part.predict_proba(take_rows(X, held_out))
    clean_probs = torch.from_numpy(probabilities)
    judged = model.model_.judge(X, y, clean_probs=clean_probs)
    # No network has seen the label of a row that it judges, so that all of them calibrate.
    evidence = torch.lerp(clean_probs, clean_probs.mean(0), SMOOTHING).log()[None]
    calibrated = calibrate(evidence, torch.from_numpy(labels.codes), judged.transition, [1.0])
    judged = replace(judged, posterior=calibrated.posterior, rate_range=calibrated.rate_range)
    return findings_of(
        judged,
        labels,
        warning=model.model_.validation.warning,
        members=len(model.model_.members),
        curves=model.model_.curves,
        ids=found.ids,
        flag_share=model.flag_share,
        facts={**found.facts, "folds": str(len(folds))},
        notes=found.notes,
    )
