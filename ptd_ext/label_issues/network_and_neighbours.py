"""Networks that were trained on the rows judge them together with the rows' neighbours.

A network partly memorises the labels that it was trained on; neighbours never see a row's own
label, but know less. The geometric mean of their judgements ranks better than either, and is nearer
to a calibrated probability.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ptd_ext.engine.model.chance import CLEARLY
from ptd_ext.engine.model.members import Judgement
from ptd_ext.engine.rows.copies import groups_of_copies
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.label_issues.calibration import Calibration, calibrate
from ptd_ext.label_issues.neighbour_evidence import TEMPERATURE, neighbour_evidence

_MIN_ROWS = 20  # held-out rows
_MAX_PRODUCTS = 1 << 38  # multiplications in the search for neighbours: ten seconds or so
_SMALLEST = 1e-30


def with_neighbours(
    found: Judgement, rows: Sequence[Inputs], codes: Tensor
) -> tuple[Judgement, dict[str, str]]:
    """The judgement of networks and neighbours, with a range of the noise rate; facts about it.

    Neighbours take no part if they explain held-out labels clearly worse than the networks do, or
    if there are too many rows to search.

    Args:
        found: the judgement of the networks.
        rows: the rows in pieces, [N, …] together; the networks were trained on the first.
        codes: class indices of their given labels, [N].
    """
    held = slice(len(rows[0]), None)
    if (
        len(codes) - len(rows[0]) < _MIN_ROWS
        or found.explained is None
        or found.clean_probs is None
    ):
        return found, {}
    other = _by_neighbours(rows, codes, found.posterior.shape[1])
    if other is not None:
        theirs = (other.clean_probs * other.transition.T[codes]).sum(1)[held]
        gain = _log(theirs) - _log(found.explained[held].double())
        if gain.mean() >= -CLEARLY * gain.std() / len(gain) ** 0.5:
            both = (_log(found.posterior.double()) + _log(other.posterior)) / 2
            judgement = dataclasses.replace(
                found,
                posterior=both.softmax(1),
                rate_range=other.rate_range,
            )
            return judgement, {"judged by": "networks and nearest neighbours"}
    clean = _log(found.clean_probs[held].double())
    alone = calibrate(clean[None], codes[held], found.transition, [1.0])
    return dataclasses.replace(found, rate_range=alone.rate_range), {"judged by": "networks"}


def _by_neighbours(rows: Sequence[Inputs], codes: Tensor, n_classes: int) -> Calibration | None:
    """The judgement of nearest neighbours; None if they cannot be searched in seconds."""
    kind, numbers = rows[0].preprocessing.kind, rows[0].sample_numbers
    if kind == "tokens" or rows[0].slow or len(codes) ** 2 * numbers > _MAX_PRODUCTS:
        return None
    cpu = torch.device("cpu")
    pieces = [each.fetch(torch.arange(len(each)), cpu).flatten(1) for each in rows]
    features = torch.cat(pieces)
    groups = groups_of_copies(features, codes)
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    if len(first) < 2:
        return None
    scores, estimate, warning = neighbour_evidence(features[first], codes[first], n_classes)
    if warning:
        return None
    matrix, prior = estimate.transition.double(), estimate.class_prior
    found = calibrate(scores, codes[first], matrix, [TEMPERATURE] * len(scores), prior)
    return dataclasses.replace(
        found, clean_probs=found.clean_probs[inverse], posterior=found.posterior[inverse]
    )


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.clamp(min=_SMALLEST).log()
