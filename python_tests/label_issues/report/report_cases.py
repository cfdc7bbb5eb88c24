"""Small findings for a page, with strings that try to be markup."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptd_ext.label_issues.findings import LabelIssues
from ptd_ext.label_issues.rates import Interval, NoiseRate
from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.utils.png import heat_picture

HOSTILE = "<script>window.hacked = 1</script>"
NAMES = ["cat", HOSTILE, 'dog, "the" </script><!--', "=1+1"]
TITLE = f"Labels & {HOSTILE}"


def findings(samples: int = 40, names: list[str] = NAMES, **changes) -> LabelIssues:
    """Sample i has the quality (i + 1) / 100, and every fourth is not flagged."""
    n_classes = len(names)
    index, classes = np.arange(samples), np.array(names, dtype=object)
    transition = np.full((n_classes, n_classes), 0.2 / max(n_classes - 1, 1))
    np.fill_diagonal(transition, 0.8 if n_classes > 1 else 1.0)
    base = LabelIssues(
        ids=np.array([f"row {i:03} & <b>" for i in range(samples)], dtype=object),
        given_label=classes[index % n_classes],
        suggested_label=classes[(index + 1) % n_classes],
        label_quality=(index + 1) / 100,
        suggested_probability=0.95 - index / 1000,
        is_label_issue=index % 4 != 3,
        posterior=np.full((samples, n_classes), 1 / n_classes, dtype=np.float32),
        classes=classes,
        noise_rate=NoiseRate(Interval(0.3, 0.25, 0.36), (Interval(0.3, 0.2, 0.4),) * n_classes),
        transition=transition,
        parts=np.stack([transition, np.full((n_classes, n_classes), 1 / n_classes)]),
        part_shares=np.array([0.75, 0.25]),
        warnings=(f"Class {HOSTILE} has few anchors.",),
        facts={"samples": str(samples), HOSTILE: HOSTILE},
        curves={"loss": [2.0, 1.0, float("nan"), 0.5], HOSTILE: [0.0, 1.0]},
        sample=show,
    )
    return replace(base, **changes)


def show(index: int) -> Sample:
    """A picture, text and the row of a table in turn."""
    if index % 3 == 0:
        return Sample(png=heat_picture(np.full((8, 8), index % 7 / 7)))
    if index % 3 == 1:
        return Sample(text=f"</td></table> text number {index} {HOSTILE}\nsecond line")
    return Sample(row={"length": str(index), HOSTILE: "<img src=x onerror='window.hacked = 1'>"})
