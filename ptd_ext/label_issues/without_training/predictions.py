"""Labels judged without training a network: by out-of-fold probabilities, embeddings, or both."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from ptd_ext.label_issues.chance import CLEARLY, chance_warning, log_likelihood
from ptd_ext.label_issues.findings import LabelIssues, judge
from ptd_ext.label_issues.inputs.labels import GivenLabels, as_ids, encode_labels
from ptd_ext.label_issues.without_training.confident_counts import confident_transition
from ptd_ext.label_issues.without_training.inversion import invert_posterior
from ptd_ext.ops.functional import clean_posterior, transition_matrix
from ptd_ext.transition.learned_parts import fit_learned_parts
from ptd_ext.transition.neighbours import neighbour_transition
from ptd_ext.transition.summary import TransitionSummary, summarise
from ptd_ext.utils.bounded_files import shortened
from ptd_ext.utils.ids import as_rows

__all__ = ["judge_predictions"]

_OFF_ONE = 1e-3  # how far a row of probabilities may be from a sum of one
_SMALLEST = 1e-30  # probabilities are clamped to it before their logarithm is taken
_NEIGHBOURS = 4
_RANKING = 1e-6  # weight of pred_probs themselves, which tell equal rows apart


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
    probabilities = None if pred_probs is None else _probabilities(pred_probs)
    if classes is None and probabilities is not None:
        names = list(getattr(pred_probs, "columns", ()))
        classes = _columns_of(y, probabilities.shape[1], names)
    labels = encode_labels(y, classes)
    count = len(labels.classes)
    ids = None if ids is None else as_ids(ids, len(labels.codes))
    _check_lengths(labels, probabilities, features, ids)
    if count < 2:
        raise ValueError(
            f"y must hold at least two classes for one of them to be wrong; got {labels.names}."
        )
    codes = torch.from_numpy(labels.codes)
    if probabilities is None:
        return _from_neighbours(features, labels, codes, ids, flag_share)
    if probabilities.shape[1] != count:
        raise ValueError(
            f"pred_probs must have a column for each of {count} classes; got "
            f"{probabilities.shape[1]}."
        )
    right = (probabilities.argmax(1) == codes).double().mean().item()
    likelihood = log_likelihood(probabilities, codes)
    warning = chance_warning("The model", right, codes, codes, likelihood)
    trusted, warnings = warning is None, [] if warning is None else [warning]
    facts = {"out-of-fold accuracy on given labels": f"{right:.1%}"}
    start = confident_transition(probabilities, codes)
    clean = invert_posterior(probabilities, None, start)
    parts, weights, shares = start[None], None, None
    if features is not None and trusted:
        rows = as_rows(features, "features", "D").float()
        learned = fit_learned_parts(rows, clean, codes, transition=start, random_state=random_state)
        summary = summarise(
            learned.parts, learned.class_prior, len(rows), learned.weights, names=_short(labels)
        )
        facts["T(x)"] = str(summary).partition("\n")[0]
        warnings += _sentences(summary)
        if not learned.kept_start:
            parts, weights = learned.parts.double(), learned.weights.double()
            shares = weights.mean(0).numpy()
            clean = invert_posterior(probabilities, weights, parts)
    logits = clean.clamp(min=_SMALLEST).log()
    matrices = parts[0] if weights is None else parts
    posterior = clean_posterior(logits, codes, weights, matrices)
    # Maximum likelihood gives many labels a probability of zero; the model ranks them still.
    posterior += _RANKING * (probabilities - posterior)
    mean = parts[0] if weights is None else transition_matrix(weights.mean(0)[None], parts)[0]
    return judge(
        posterior.float().numpy(),
        labels,
        mean.numpy(),
        ids=ids,
        flag_share=flag_share,
        trusted=trusted,
        parts=None if weights is None else parts.numpy(),
        part_shares=shares,
        warnings=tuple(warnings),
        facts=facts,
    )


def _from_neighbours(
    features: Any, labels: GivenLabels, codes: Tensor, ids: Any, flag_share: float
) -> LabelIssues:
    rows = as_rows(features, "features", "D").float()
    k = min(_NEIGHBOURS, len(rows) - 1)
    found = neighbour_transition(rows, codes, k, classes=len(labels.classes))
    chance = float(((torch.bincount(codes).double() / len(codes)) ** 2).sum())
    pairs = len(codes) * k
    needed = chance + CLEARLY * (chance * (1 - chance) / pairs) ** 0.5
    summary = summarise(found.transition[None], found.class_prior, len(rows), names=_short(labels))
    trusted, warnings = found.agreement > needed, _sentences(summary)
    if not trusted:
        warnings.insert(
            0,
            f"Neighbours in these features share a label in {found.agreement:.1%} of the cases, "
            f"no more than rows at random ({chance:.1%}), so that nothing is flagged. Try other "
            "features, such as embeddings by a network trained for this kind of data.",
        )
    return judge(
        found.posterior.numpy(),
        labels,
        found.transition.double().numpy(),
        ids=ids,
        flag_share=flag_share,
        trusted=trusted,
        warnings=tuple(warnings),
        facts={"neighbours that share the label": f"{found.agreement:.1%}"},
    )


def _short(labels: GivenLabels) -> list[str]:
    """The names of the classes, as sentences can hold them."""
    return [shortened(name) for name in labels.names]


def _sentences(summary: TransitionSummary) -> list[str]:
    return [doubt[:1].upper() + doubt[1:] for doubt in summary.doubts]


def _probabilities(given: Any) -> Tensor:
    rows = as_rows(given, "pred_probs").double()
    if not rows.isfinite().all() or (rows < 0).any():
        row = int(((rows < 0) | ~rows.isfinite()).any(1).nonzero()[0])
        raise ValueError(f"pred_probs must be probabilities; row {row} is {rows[row].tolist()}.")
    off = (rows.sum(1) - 1).abs()
    if len(rows) and off.max() > _OFF_ONE:
        row = int(off.argmax())
        raise ValueError(
            f"pred_probs must have rows that sum to one; row {row} sums to {rows[row].sum():.6g}. "
            "Apply softmax to logits first."
        )
    return rows / rows.sum(1, keepdim=True)


def _columns_of(y: Any, columns: int, names: list[Any]) -> Sequence[Hashable] | None:
    """Return None if sorted labels are the columns, or indices if labels are indices of columns.

    The columns of a data frame may be named by the labels, in any order.
    """
    found = encode_labels(y).classes
    labels = found.tolist()
    # Numbers of columns are no names of labels such as True or 1.0, though they are equal to them.
    if set(map(type, labels)) == set(map(type, names)) and set(labels) <= set(names):
        return names
    texts = {str(label): label for label in labels}
    if len(texts) == len(labels) and set(texts) == set(names):  # numbers, as a file names columns
        return [texts[name] for name in names]
    if len(found) == columns:
        return None
    if found.dtype.kind in "iu" and len(found) and found[0] >= 0 and found[-1] < columns:
        return list(range(columns))
    raise ValueError(
        f"pred_probs has {columns} columns and y {len(found)} classes: say with classes which "
        "column is which."
    )


def _check_lengths(labels: GivenLabels, probabilities: Any, features: Any, ids: Any) -> None:
    count = len(labels.codes)
    if count < 2:
        raise ValueError(f"y must hold at least two labels; got {count}.")
    for name, rows in (("pred_probs", probabilities), ("features", features)):
        if rows is not None and len(rows) != count:
            raise ValueError(
                f"{name} must have one row for each of {count} labels; got {len(rows)}."
            )
    if ids is not None and len(set(ids.tolist())) != count:
        raise ValueError("ids must be different from each other.")
