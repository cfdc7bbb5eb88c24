"""Rows judged by networks that were trained without them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ptd_ext.label_issues._labels import encode_labels
from ptd_ext.label_issues.findings import LabelIssues, judge
from ptd_ext.ops.functional import clean_posterior

if TYPE_CHECKING:
    from ptd_ext.label_issues.classifier import PTDClassifier

__all__ = ["cross_fitted"]


def cross_fitted(model: PTDClassifier, X: Any, y: Any, folds: int) -> LabelIssues:  # noqa: N803
    """The findings of a fitted model, with P(Y | x) of every row from a fit without its fold.

    T(x) stays that of the model, which was fitted to all rows.
    """
    from sklearn.base import clone
    from sklearn.model_selection import KFold

    count = len(model.label_issues_)
    if not 2 <= folds <= count:
        raise ValueError(f"cross_fit must be 0 or from 2 to the {count} rows; got {folds}.")
    found = model.label_issues_
    labels = encode_labels(y, model.classes_.tolist())
    index = {label: position for position, label in enumerate(model.classes_.tolist())}
    probabilities = np.zeros((count, len(model.classes_)))
    splitter = KFold(folds, shuffle=True, random_state=model.random_state)
    for train, held_out in splitter.split(np.zeros((count, 1))):
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
        facts={**found.facts, "folds": str(folds)}, curves=found.curves,
    )  # fmt: skip


def _rows(values: Any, positions: Any) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[positions]
    if hasattr(values, "tocsr"):
        return values.tocsr()[positions]
    if isinstance(values, (list, tuple)):
        return [copy.copy(values[position]) for position in positions]
    return values[positions]
