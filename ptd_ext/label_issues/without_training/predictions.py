"""Labels judged without training a network: by out-of-fold probabilities, embeddings, or both."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.engine.model.chance import chance_warning, log_likelihood
from ptd_ext.engine.model.members import Judgement
from ptd_ext.engine.rows.copies import groups_of_copies
from ptd_ext.engine.rows.labels import GivenLabels, as_ids, encode_labels
from ptd_ext.label_issues.calibration import calibrate
from ptd_ext.label_issues.caveats import copies_caveats
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.judging import findings_of
from ptd_ext.label_issues.neighbour_evidence import (
    SMOOTHING,
    TEMPERATURE,
    neighbour_evidence,
    smoothed,
)
from ptd_ext.label_issues.without_training.confident_counts import confident_transition
from ptd_ext.label_issues.without_training.inversion import invert_posterior
from ptd_ext.label_issues.without_training.pred_probs import (
    as_probabilities,
    check_order,
    labels_by_column,
)
from ptd_ext.utils.ids import as_rows

_RANKING = 1e-6  # weight of pred_probs in the posterior
_SMALLEST = 1e-30  # probabilities are clamped to it before their logarithm is taken
_FLOAT32 = (1e-30, 1e30)  # rows whose largest entry is within these keep their digits in float32


# Facts for the page; why nothing can be flagged, or nothing; caveats.
_Evidence = tuple[Judgement, dict[str, str], str, tuple[str, ...]]


def judge_predictions(
    y: Any,
    pred_probs: Any,
    features: Any,
    *,
    classes: Sequence[Hashable] | None,
    ids: Any,
    flag_share: float,
) -> LabelIssues:
    """Judge every label; arguments as in :func:`ptd_ext.find_label_issues`."""
    for name, rows in (("pred_probs", pred_probs), ("features", features)):
        if hasattr(rows, "tocsr"):
            raise TypeError(
                f"{name} must be a dense matrix; got a sparse one. Reduce features first, such as "
                "by scikit-learn's TruncatedSVD, or give them as X."
            )
    checked = None if pred_probs is None else as_probabilities(pred_probs)
    if classes is None and checked is not None:
        labels = labels_by_column(y, pred_probs, checked.shape[1])
    else:
        check_order(classes, pred_probs)
        labels = encode_labels(y, classes)
    ids = None if ids is None else as_ids(ids, len(labels.codes))
    _check_sizes(labels, checked, features)
    codes = torch.from_numpy(labels.codes)
    embeddings = None if features is None else _embeddings(features)
    evidence = _evidence(checked, embeddings, codes, len(labels.classes))
    judgement, facts, warning, caveats = evidence
    options = {"ids": ids, "flag_share": flag_share, "facts": facts}
    found = findings_of(judgement, labels, warning=warning, **options)
    return dataclasses.replace(found, warnings=(*found.warnings, *caveats))


def _evidence(
    pred_probs: Tensor | None, features: Tensor | None, codes: Tensor, n_classes: int
) -> _Evidence:
    """What is given, as evidence that is calibrated and combined by its likelihood."""
    inverse = None
    caveats: tuple[str, ...] = ()
    if features is not None:
        groups = groups_of_copies(features, codes)
        caveats = copies_caveats(groups_of_copies(features), codes.numpy())
        if groups.max() > 0:  # two rows at least
            _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
            features, codes = features[first], codes[first]
            pred_probs = None if pred_probs is None else pred_probs[first]
    kinds, starts, temperatures, warnings, facts = [], [], [], [], {}
    prior = None
    if features is not None:
        scores, estimate, warning = neighbour_evidence(features, codes, n_classes)
        kinds.append(scores)
        temperatures += [TEMPERATURE] * len(scores)
        starts.append(estimate.transition.double())
        warnings.append(warning)
        prior = estimate.class_prior
        facts["neighbours that share the label"] = f"{estimate.agreement:.1%}"
    if pred_probs is not None:
        scores, start, warning = _from_probabilities(pred_probs, codes)
        kinds.append(scores[None])
        temperatures.append(1.0)
        starts.append(start)
        warnings.append(warning)
        right = (pred_probs.argmax(1) == codes).double().mean().item()
        facts["out-of-fold accuracy on given labels"] = f"{right:.1%}"
    evidence, start = torch.cat(kinds), torch.stack(starts).mean(0)
    found = calibrate(evidence, codes, start, temperatures, prior)
    posterior = found.posterior
    if pred_probs is not None:  # many posteriors round to zero; pred_probs still rank them
        posterior = torch.lerp(posterior, pred_probs, _RANKING)
    matrix, shares = found.transition, found.clean_probs.mean(0)
    judgement = Judgement(
        posterior if inverse is None else posterior[inverse],
        shares[:, None] * matrix,
        matrix,
        matrix[None],
        torch.ones(1),
        rate_range=found.rate_range,
    )
    # Either kind is enough.
    return judgement, facts, "" if "" in warnings else warnings[0], caveats


def _from_probabilities(pred_probs: Tensor, codes: Tensor) -> tuple[Tensor, Tensor, str]:
    """Log-probabilities of the true class, [N, C]; T by confident counts; a warning or nothing."""
    right = (pred_probs.argmax(1) == codes).double().mean().item()
    likelihood = log_likelihood(pred_probs, codes)
    warning = chance_warning("The model", right, codes, codes, likelihood) or ""
    start = smoothed(confident_transition(pred_probs, codes).transition)
    clean_probs = torch.lerp(invert_posterior(pred_probs, None, start), pred_probs, SMOOTHING)
    return clean_probs.clamp(min=_SMALLEST).log(), start, warning


def _embeddings(features: Any) -> Tensor:
    """The features in float32, which takes half the time, unless it would change a direction."""
    rows = as_rows(features, "features", "D")
    largest = torch.linalg.vector_norm(rows, torch.inf, dim=1)
    kept = (largest == 0) | ((largest >= _FLOAT32[0]) & (largest <= _FLOAT32[1]))
    return rows.float() if kept.all() else rows


def _check_sizes(labels: GivenLabels, pred_probs: Any, features: Any) -> None:
    count, n_classes = len(labels.codes), len(labels.classes)
    if count < 2:
        raise ValueError(f"y must hold at least two labels; got {count}.")
    for name, rows in (("pred_probs", pred_probs), ("features", features)):
        if rows is not None and len(rows) != count:
            raise ValueError(
                f"{name} must have one row for each of {count} labels; got {len(rows)}."
            )
    if n_classes < 2:
        raise ValueError(f"y must hold at least two classes; got {labels.names}.")
    if pred_probs is not None and pred_probs.shape[1] != n_classes:
        raise ValueError(
            f"pred_probs must have a column for each of {n_classes} classes; got "
            f"{pred_probs.shape[1]}."
        )
