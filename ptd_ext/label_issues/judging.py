"""Judges the given labels of rows with a fitted model: the one way from a model to findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptd_ext.engine.model.fitted_model import FittedModel
from ptd_ext.engine.model.members import Judgement, judge_rows
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.label_issues.caveats import transition_caveats
from ptd_ext.label_issues.findings import LabelIssues, judge
from ptd_ext.label_issues.network_and_neighbours import with_neighbours
from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.utils.distributed import Ranks


def judge_labels(
    model: FittedModel,
    rows: Sequence[Inputs],
    labels: GivenLabels,
    *,
    order: NDArray[np.int64] | None = None,
    ids: Any = None,
    flag_share: float = 1.0,
    facts: Mapping[str, str] | None = None,
    sample: Callable[[int], Sample] | None = None,
    ranks: Ranks | None = None,
) -> LabelIssues:
    """Judge the labels of rows that the model was trained on.

    Args:
        model: the fitted model.
        rows: the rows in one or more pieces, [N, …] together; those that the model was trained on
            are the first piece.
        labels: their given labels, in the classes of the model, [N].
        order: positions that put the rows in the order of the findings, [N].
        ids: the ids of the findings' rows, [N]; row numbers by default.
        flag_share: as in :func:`ptd_ext.find_label_issues`.
        facts: more facts for the page, name to value.
        sample: a function from the position of a finding to what the page shows of it.
        ranks: the processes that share the work.
    """
    found = judge_rows(model.members, rows, torch.from_numpy(labels.codes), ranks=ranks)
    judges: dict[str, str] = {}
    if model.validation.beats_chance:
        found, judges = with_neighbours(found, rows, torch.from_numpy(labels.codes))
    if order is not None:
        found = dataclasses.replace(found, posterior=found.posterior[torch.from_numpy(order)])
        labels = GivenLabels(labels.codes[order], labels.classes)
    about = {
        "rows": f"{len(labels.codes):,}",
        "classes": f"{len(model.classes)}",
        "method": model.method,
        "network": model.network_name,
        "accuracy on given labels of held-out rows": f"{model.validation.accuracy:.1%}",
        **judges,
        **(facts or {}),
    }
    columns = model.preprocessing.columns
    if columns is not None:
        about["columns"] = columns.brief()
    return findings_of(
        found,
        labels,
        warning=model.validation.warning,
        members=len(model.members),
        ids=ids,
        flag_share=flag_share,
        facts=about,
        curves=model.curves,
        notes=() if columns is None else tuple(columns.summary()),
        sample=sample,
    )


def findings_of(
    found: Judgement,
    labels: GivenLabels,
    *,
    warning: str = "",
    members: int = 1,
    **options: Any,
) -> LabelIssues:
    """The findings that follow from a judgement.

    Args:
        found: the judgement.
        labels: the given labels of the rows, [N].
        warning: why the model is no better than chance; empty if it is better.
        members: the number of networks that judged.
        options: further arguments of :func:`ptd_ext.label_issues.findings.judge`.
    """
    caveats: tuple[str, ...] = (warning,)
    if not warning:
        counts, shares = found.joint.sum(1), found.part_shares[None]
        caveats = transition_caveats(
            found.parts, counts, len(labels.codes), shares, class_names=labels.names
        )
    several = len(found.parts) > members
    return judge(
        found.posterior.float().numpy(),
        labels,
        found.transition.double().numpy(),
        rate_range=found.rate_range,
        trusted=not warning,
        parts=found.parts.double().numpy() if several else None,
        part_shares=found.part_shares.double().numpy() if several else None,
        warnings=caveats,
        **options,
    )
