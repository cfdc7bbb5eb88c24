"""Arguments of `find_label_issues` that were mixed up, recognised before anything is read."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from ptd_ext.engine.rows.columns import are_texts

# Names that other packages give to the same arguments.
_ELSEWHERE = {
    "data": "X",
    "feature_extractor": "encoder",
    "label": "y",
    "labels": "y",
    "n_folds": "cross_fit",
    "seed": "random_state",
    "texts": "X",
    "verbose": "progress",
}
_TOLERANCE = 1e-3  # difference between sums of probabilities and 1


def check_rows_and_labels(X: Any, y: Any) -> None:  # noqa: N803
    """Raise ValueError if X is a path, y the name of a column, or both are exchanged."""
    if isinstance(X, (str, os.PathLike)):
        raise ValueError(
            f"X must hold the rows; got the path {os.fspath(X)!r}. Read the file first, such as "
            "with pandas.read_csv, or run `ptd-ext labels` on it."
        )
    if isinstance(y, str):
        columns = getattr(X, "columns", ())
        hint = f" Give X.drop(columns={y!r}) and X[{y!r}]." if y in columns else ""
        raise ValueError(f"y must hold a label for every row; got the string {y!r}.{hint}")
    if X is None or y is None:
        return
    if _dims(X) == 1 and _width(y) > 1:
        if _are_probabilities(y):
            raise ValueError(
                "X and y look like labels and predicted probabilities, which is the order of "
                "cleanlab. Give find_label_issues(None, labels, pred_probs=pred_probs)."
            )
        raise ValueError(
            f"X and y look exchanged: X is {list(np.shape(X))} and y {list(np.shape(y))}. Give "
            "the rows first, find_label_issues(rows, labels)."
        )
    if are_texts(X) and are_texts(y) and len(X) == len(y) and _repeats(X) and not _repeats(y):
        raise ValueError(
            f"X and y look exchanged: y holds {len(set(y)):,} different strings and X "
            f"{len(set(X)):,} in {len(y):,} rows. Give the texts first, "
            "find_label_issues(texts, labels)."
        )


def check_names(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise TypeError for an option that does not exist, with the name that is meant."""
    for name in options:
        if name not in known:
            near = [_ELSEWHERE[name]] if name in _ELSEWHERE else get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise TypeError(f"find_label_issues() has no argument {name!r}.{hint}")


def _dims(values: Any) -> int:
    """The number of dimensions; rows that are lists count."""
    if hasattr(values, "ndim"):
        return int(values.ndim)
    if not isinstance(values, (list, tuple)) or not len(values):
        return 0
    return 1 + _dims(values[0])


def _width(values: Any) -> int:
    """The number of columns of a matrix; 0 for anything else."""
    if _dims(values) != 2:
        return 0
    return int(values.shape[1]) if hasattr(values, "shape") else len(values[0])


def _are_probabilities(values: Any) -> bool:
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return bool((matrix >= 0).all() and (abs(matrix.sum(1) - 1) <= _TOLERANCE).all())


def _repeats(values: Any) -> bool:
    """True if a value occurs twice on average or more often, as those of labels do."""
    return 2 * len({str(value) for value in values}) <= len(values)
