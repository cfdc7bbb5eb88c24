"""Small contents of a page, with texts that try to be markup."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptd_ext.label_issues.report import Interval, ReportContents, Sample
from ptd_ext.label_issues.report.figures import heat_picture

HOSTILE = "<script>window.hacked = 1</script>"
NAMES = ["cat", HOSTILE, 'dog, "the" </script><!--', "=1+1"]


def contents(samples: int = 40, names: list[str] = NAMES, **changes) -> ReportContents:
    """Sample i has the quality (i + 1) / 100, and every fourth is not flagged."""
    classes = len(names)
    index = np.arange(samples)
    transition = np.full((classes, classes), 0.2 / max(classes - 1, 1))
    np.fill_diagonal(transition, 0.8 if classes > 1 else 1.0)
    base = ReportContents(
        title=f"Labels & {HOSTILE}",
        class_names=names,
        ids=[f"row {i:03} & <b>" for i in range(samples)],
        given=index % classes,
        suggested=(index + 1) % classes,
        label_quality=(index + 1) / 100,
        suggested_probability=0.95 - index / 1000,
        is_label_issue=index % 4 != 3,
        noise_rate=Interval(0.3, 0.25, 0.36),
        noise_rate_by_class=[Interval(0.3, 0.2, 0.4)] * classes,
        transition=transition,
        parts=np.stack([transition, np.full((classes, classes), 1 / classes)]),
        part_shares=np.array([0.75, 0.25]),
        warnings=[f"Class {HOSTILE} has few anchors."],
        facts={"samples": str(samples), HOSTILE: HOSTILE},
        curves={"loss": [2.0, 1.0, float("nan"), 0.5], HOSTILE: [0.0, 1.0]},
        sample=show,
    )
    return replace(base, **changes)


def show(index: int) -> Sample:
    """An image, a text or a row, in turn."""
    if index % 3 == 0:
        return Sample(png=heat_picture(np.full((8, 8), index % 7 / 7)))
    if index % 3 == 1:
        return Sample(text=f"</td></table> text number {index} {HOSTILE}\nsecond line")
    return Sample(row={"length": str(index), HOSTILE: "<img src=x onerror='window.hacked = 1'>"})
