"""Findings as columns of a Hugging Face dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptd_ext.label_issues.review.exchange.tasks import FINDINGS

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues


def add_columns(found: LabelIssues, dataset: Any) -> Any:
    """A copy of a Hugging Face dataset with findings as columns.

    The columns are `suggested_label`, `suggested_probability`, `label_quality` and
    `is_label_issue`. Decisions go the other way as a mapping:
    ``found.update(dict(zip(found.ids.tolist(), dataset["verified_label"])))``, in which None stands
    for rows that nobody has reviewed.

    Args:
        found: findings about the rows of the dataset, in its order.
        dataset: a ``datasets.Dataset`` without these columns.
    """
    if len(dataset) != len(found):
        raise ValueError(
            f"dataset must have the {len(found):,} rows that were judged, in the same order; it "
            f"has {len(dataset):,}."
        )
    taken = sorted(set(FINDINGS) & set(dataset.column_names))
    if taken:
        raise ValueError(
            f"dataset must not have columns of the findings; it has {', '.join(taken)}. Remove "
            "them, or rename them."
        )
    for name in FINDINGS:
        dataset = dataset.add_column(name, getattr(found, name).tolist())
    return dataset
