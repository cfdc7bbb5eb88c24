"""find_label_issues: judges every label, from rows, predicted probabilities or embeddings."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ptd_ext.engine.model.progress import bar_on_terminals
from ptd_ext.engine.rows.labels import as_ids, encode_labels
from ptd_ext.engine.rows.torch_dataset import read_dataset
from ptd_ext.label_issues._parameters import check_folds, check_parameters, check_seed
from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.mix_ups import check_names, check_rows_and_labels
from ptd_ext.label_issues.rates import check_flag_share
from ptd_ext.label_issues.review.read import read_decisions
from ptd_ext.label_issues.samples import show_rows
from ptd_ext.label_issues.without_training.predictions import judge_predictions
from ptd_ext.utils.arguments import check_same_index, has_index
from ptd_ext.utils.extras import optional_packages
from ptd_ext.utils.params import seed_of


def find_label_issues(
    X: Any = None,  # noqa: N803
    y: Any = None,
    *,
    pred_probs: Any = None,
    features: Any = None,
    classes: Sequence[Hashable] | None = None,
    ids: Any = None,
    flag_share: float = 1.0,
    cross_fit: int = 0,
    verified: Any = None,
    random_state: Any = 0,
    progress: bool | str | None = None,
    **options: Any,
) -> LabelIssues:
    r"""Judge every label: how likely it is right, and what it should be.

    ==================  ======================================================================
    given               how the labels are judged
    ==================  ======================================================================
    X                   by a :class:`ptd_ext.PTDClassifier`, trained on X and y, and by the labels
                        of nearest neighbours where there are not too many rows
    ``pred_probs``      without training: by these probabilities
    ``features``        without training: by the labels of nearest neighbours
    both of these       without training: by both, each weighted by its likelihood
    ==================  ======================================================================

    ``pred_probs`` are probabilities of the *given* label, as predicted by a classifier that was
    trained on given labels. They are turned into probabilities g of the true label by maximum
    likelihood on the simplex, max_g Σₖ pₖ log (Tᵀg)ₖ, with T by confident counts. Neighbours give
    the likelihood of their labels for each true class. A temperature for each, the bias of each
    class and T then maximise the likelihood of the given labels, which no evidence has seen. The
    quality of a label is P(Y = ȳ | x, ȳ) = g_ȳ T_ȳȳ / (Tᵀg)_ȳ, and a row is flagged if another
    class is more probable than its given label.

    Args:
        X: the rows: an array, a tensor, a data frame, texts, a sparse matrix, images or a Dataset.
            With ``pred_probs`` or ``features`` they are only shown in the report, and may be None.
        y: the given labels, [N]: numbers, strings, or anything hashable.
        pred_probs: P(given label | x), [N, C], each row from a model that was not trained on it,
            such as scikit-learn's ``cross_val_predict(…, method="predict_proba")``.
        features: embeddings of the rows, [N, D], in which rows of a class are close together.
        classes: the class of each column of ``pred_probs``; by default the sorted labels.
        ids: ids of the rows, [N]; by default the index of X or y if one is pandas', otherwise row
            numbers.
        flag_share: how many rows to flag in units of those of which another class is more probable
            than the given label: below 1 fewer rows, of which more are truly wrong; above 1 also
            the most doubtful of the others, which keep their label as the suggested one.
        cross_fit: the number of folds k. With 0, one network that was trained on all rows judges
            them; as it trains through T(x), it hardly memorises wrong labels. With 2 or more, each
            row is judged by a network trained without its fold, which takes k + 1 times as long.
        verified: labels that reviewers verified, in the forms of
            :func:`ptd_ext.label_issues.read_decisions`, such as a mapping from ids to true labels
            or the file of the report. They are never flagged, and the other labels are recalibrated
            by them, as :meth:`ptd_ext.LabelIssues.update` does. Networks are then trained a second
            time with them, unless `cross_fit` is given.
        random_state: a seed, or a generator of NumPy or torch.
        progress: true prints a line for every epoch of training, "bar" shows a progress bar, false
            nothing; by default a bar if standard error is a terminal.
        options: further arguments of :class:`ptd_ext.PTDClassifier`.

    Returns:
        The judgement of every row, the estimated noise rate, and warnings. Where the model is
        not clearly above chance, no row is flagged and ``trusted`` is false.

    Examples:
        >>> generator = np.random.default_rng(0)
        >>> y = np.repeat(["cat", "dog"], 100)
        >>> X = generator.normal(size=(200, 4)) + 4 * (y == "dog")[:, None]
        >>> y[[7, 150]] = "dog", "cat"  # two wrong labels
        >>> found = ptd_ext.find_label_issues(X, y)
        >>> found.most_doubtful()[:2]
        array([  7, 150])
        >>> found.table.loc[7, ["given_label", "suggested_label"]].tolist()
        ['dog', 'cat']
    """
    if options:
        check_names(options, _arguments())
    check_rows_and_labels(X, y)
    if X is None and pred_probs is None and features is None:
        raise ValueError("X must hold the rows, unless pred_probs or features are given.")
    check_flag_share(flag_share)
    check_folds(cross_fit)
    check_seed(random_state)
    y = list(y) if isinstance(y, Iterator) else y  # it is gone through more than once
    check_same_index(X=X, y=y, pred_probs=pred_probs, features=features, ids=ids)
    if ids is None:
        ids = next((each.index for each in (X, y) if has_index(each)), None)
    trains = pred_probs is None and features is None
    if verified is not None and y is not None and trains:
        _check_verified(verified, y, ids, classes)
    if pred_probs is not None or features is not None:
        if options or cross_fit:
            odd = next(iter(options), "cross_fit")
            raise TypeError(
                f"{odd} must not be given with pred_probs or features: nothing is trained."
            )
        found = judge_predictions(
            y, pred_probs, features, classes=classes, ids=ids, flag_share=flag_share
        )  # fmt: skip
    else:
        if classes is not None:
            raise TypeError("classes must be given with pred_probs, whose columns they name.")
        options["progress"] = bar_on_terminals() if progress is None else progress
        own = None if cross_fit else verified
        found = _by_training(X, y, ids, flag_share, cross_fit, own, seed_of(random_state), options)
    if verified is not None and (cross_fit or not trains):
        found = found.update(verified, flag_share=flag_share)
    if len(set(found.ids.tolist())) < len(found):
        shared = "Some rows share an id, so that the table cannot be joined by it."
        found = dataclasses.replace(found, warnings=(*found.warnings, shared))
    if X is None:
        return found
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if rows != len(found):
        raise ValueError(f"X must have one row for each of {len(found)} labels; got {rows}.")
    return dataclasses.replace(found, sample=show_rows(X))


def _arguments() -> set[str]:
    """The names of all arguments, those of PTDClassifier among them."""
    own = inspect.signature(find_label_issues).parameters
    with optional_packages("ptd_ext.find_label_issues"):
        from ptd_ext.label_issues.classifier import PTDClassifier
    return {*own, *inspect.signature(PTDClassifier).parameters} - {"options"}


def _check_verified(verified: Any, y: Any, ids: Any, classes: Any) -> None:
    """Raise ValueError for decisions that are not about these rows, or contradict each other."""
    labels = encode_labels(y, classes)
    rows = np.arange(len(labels.codes)) if ids is None else as_ids(ids, len(labels.codes))
    read_decisions(verified, rows, labels).agreed()


def _by_training(
    X: Any,  # noqa: N803
    y: Any,
    ids: Any,
    flag_share: float,
    folds: int,
    verified: Any,
    seed: int,
    options: dict[str, Any],
) -> LabelIssues:
    with optional_packages("ptd_ext.find_label_issues"):
        from ptd_ext.label_issues.classifier import PTDClassifier
        from ptd_ext.label_issues.cross_fit import cross_fitted, fold_rows

    if isinstance(X, Dataset):
        X, own = read_dataset(X)  # noqa: N806
        y = own if y is None else y
    model = PTDClassifier(flag_share=flag_share, random_state=seed, **options)
    check_parameters(model)
    # All that could fail is tried before the training.
    if ids is not None and y is not None:
        ids = as_ids(ids, len(y))
    splits = fold_rows(y, folds, seed) if folds else []
    # The encoder runs once, not for every fold.
    X, model.encoder = model._features(X), None  # noqa: N806
    model._fit(X, y, verified, ids)
    found = cross_fitted(model, X, y, splits) if folds else model.label_issues_
    return found if ids is None else dataclasses.replace(found, ids=ids)
