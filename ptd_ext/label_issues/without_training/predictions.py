"""Labels judged without training a network: by out-of-fold probabilities, embeddings, or both."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from ptd_ext.engine.model.chance import CLEARLY, chance_warning, log_likelihood
from ptd_ext.engine.model.members import Judgement
from ptd_ext.engine.rows.labels import GivenLabels, as_ids, encode_labels
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.judging import findings_of
from ptd_ext.label_issues.without_training.confident_counts import confident_transition
from ptd_ext.label_issues.without_training.inversion import invert_posterior
from ptd_ext.label_issues.without_training.pred_probs import (
    as_probabilities,
    check_order,
    labels_by_column,
)
from ptd_ext.ops.functional import clean_posterior, transition_matrix
from ptd_ext.transition.learned_parts import fit_learned_parts
from ptd_ext.transition.neighbours import neighbour_transition
from ptd_ext.utils.ids import as_rows

_SMALLEST = 1e-30  # probabilities are clamped to it before their logarithm is taken
_NEIGHBOURS = 4
_FLOAT32 = (1e-30, 1e30)  # rows whose largest entry is within these keep their digits in float32
_RANKING = 1e-6  # weight of pred_probs themselves, which separate rows of equal posterior


_Evidence = tuple[Judgement, dict[str, str], str]  # facts for the page; a warning or nothing


def judge_predictions(
    y: Any,
    pred_probs: Any,
    features: Any,
    *,
    classes: Sequence[Hashable] | None,
    ids: Any,
    flag_share: float,
    random_state: int,
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
    if checked is not None:
        evidence = _from_probabilities(checked, embeddings, codes, random_state)
    else:
        assert embeddings is not None
        evidence = _from_neighbours(embeddings, codes, len(labels.classes))
    found, facts, warning = evidence
    return findings_of(found, labels, warning=warning, ids=ids, flag_share=flag_share, facts=facts)


def _from_probabilities(
    pred_probs: Tensor, features: Tensor | None, codes: Tensor, random_state: int
) -> _Evidence:
    """T by confident counts, and with features T(x) by likelihood, which starts from that T."""
    right = (pred_probs.argmax(1) == codes).double().mean().item()
    likelihood = log_likelihood(pred_probs, codes)
    warning = chance_warning("The model", right, codes, codes, likelihood) or ""
    facts = {"out-of-fold accuracy on given labels": f"{right:.1%}"}
    start = confident_transition(pred_probs, codes).transition
    clean_probs = invert_posterior(pred_probs, None, start)
    parts, weights = start[None], None
    if features is not None and not warning:
        learned = fit_learned_parts(
            features, clean_probs, codes, transition=start, random_state=random_state
        )
        facts["T(x)"] = str(learned.summary()).partition("\n")[0]
        if not learned.kept_start:
            parts, weights = learned.parts.double(), learned.weights.double()
            clean_probs = invert_posterior(pred_probs, weights, parts)
    matrices = parts[0] if weights is None else parts
    posterior = clean_posterior(clean_probs.clamp(min=_SMALLEST).log(), codes, weights, matrices)
    # Maximum likelihood gives many labels a probability of zero; pred_probs still rank them.
    posterior += _RANKING * (pred_probs - posterior)
    if weights is None:
        weights = clean_probs.new_ones(len(codes), 1)
    shares, true_and_part = weights.mean(0), weights.T @ clean_probs / len(codes)  # [R], [R, C]
    mean = transition_matrix(shares[None], parts)[0]
    joint = (true_and_part[..., None] * parts).sum(0)
    return Judgement(posterior, joint, mean, parts, shares), facts, warning


def _from_neighbours(features: Tensor, codes: Tensor, n_classes: int) -> _Evidence:
    """T from the labels of nearest neighbours."""
    k = min(_NEIGHBOURS, len(features) - 1)
    found = neighbour_transition(features, codes, k, n_classes=n_classes)
    chance = float(((torch.bincount(codes).double() / len(codes)) ** 2).sum())
    needed = chance + CLEARLY * (chance * (1 - chance) / (len(codes) * k)) ** 0.5
    warning = ""
    if found.agreement <= needed:
        warning = (
            f"Neighbours in these features share a label in {found.agreement:.1%} of the cases, "
            f"no more than random rows ({chance:.1%}). No label is flagged. Try other features, "
            "such as embeddings by a network trained for this kind of data."
        )
    matrix = found.transition.double()
    joint = found.class_prior.double()[:, None] * matrix
    judgement = Judgement(found.posterior, joint, matrix, matrix[None], torch.ones(1))
    facts = {"neighbours that share the label": f"{found.agreement:.1%}"}
    return judgement, facts, warning


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
