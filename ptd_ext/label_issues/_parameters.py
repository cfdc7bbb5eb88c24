"""The settings of a classifier and of its judgement, checked before anything is read or trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptd_ext.engine.model.progress import check_progress
from ptd_ext.engine.settings.settings import MAX_SEED
from ptd_ext.label_issues.rates import check_flag_share
from ptd_ext.nmf.estimator import MAX_PARTS
from ptd_ext.utils.arguments import check_integer
from ptd_ext.utils.bounded_files import machine_memory
from ptd_ext.utils.chosen_device import chosen_device

if TYPE_CHECKING:
    from ptd_ext.label_issues.classifier import PTDClassifier

MIN_ROWS = 4  # to learn from
_COPIES = 4  # matrices, gradients and moments of the optimiser
_WHOLE = (int, np.integer)
_NUMBERS = (int, float, np.number)


def check_parameters(model: PTDClassifier) -> None:
    """Raise ValueError for a parameter that no rows could work with; it begins with its name."""
    # Only training needs these; findings from predictions do without.
    from ptd_ext.engine import networks
    from ptd_ext.engine.methods.registry import METHODS
    from ptd_ext.engine.rows.encoders import check_encoder

    usable = [name for name, method in METHODS.items() if method.kind != "none"]
    if model.method not in usable:
        raise ValueError(
            f"method must be one with a T(x), {', '.join(usable)}; got {model.method!r}."
        )
    networks.check_name(model.network, other=("auto",))
    check_integer(model.n_parts, "n_parts", 1, MAX_PARTS)
    if model.epochs is not None:
        check_integer(model.epochs, "epochs")
    share = model.validation_fraction
    if share is not None and not (isinstance(share, _NUMBERS) and 0 < share < 1):
        raise ValueError(f"validation_fraction must be more than 0 and less than 1; got {share}.")
    check_encoder(model.encoder)
    check_flag_share(model.flag_share)
    check_seed(model.random_state)
    chosen_device(model.device)
    check_progress(model.progress)


def check_classes(n_classes: int, n_parts: int) -> None:
    """Raise where the matrices of T(x) are more than this machine's memory holds."""
    memory = machine_memory()
    needed = _COPIES * n_parts * n_classes**2 * 8
    if needed > memory:
        raise ValueError(
            f"y holds {n_classes:,} classes; {n_parts} matrices T(x) of this size need about "
            f"{needed:,} bytes, but this machine has {memory:,}. Check that y contains class "
            "labels."
        )


def check_folds(folds: Any, rows: int | None = None) -> None:
    """Raise for a number of folds that cannot work, with any rows or with so many."""
    maximum = "" if rows is None else f" to the {rows} rows"
    minimum = "at least 2" if rows is None else "from 2"
    if not isinstance(folds, _WHOLE) or folds < 0 or folds == 1 or (rows and folds > rows):
        raise ValueError(f"cross_fit must be 0 or {minimum}{maximum}; got {folds}.")


def check_seed(random_state: Any) -> None:
    """Raise for a number that cannot be a seed; generators are checked where they are used."""
    if isinstance(random_state, (*_NUMBERS, str)):
        check_integer(random_state, "random_state", 0, MAX_SEED)
