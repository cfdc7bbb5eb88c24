"""Caveats about an estimated T(x), for the warnings of the findings."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ptd_ext.transition.estimate import EstimatedTransition
from ptd_ext.utils.bounded_files import shortened

_MAX_CAVEATS = 3  # listed one by one


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
