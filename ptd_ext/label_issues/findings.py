"""LabelIssues: the judgement of every label, the noise rates, and how far to trust both."""

from __future__ import annotations

import csv
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.label_issues.inputs.labels import GivenLabels, as_ids
from ptd_ext.label_issues.rates import NoiseRate, check_flag_share, flag_issues, noise_rate
from ptd_ext.label_issues.report import ReportContents, Sample, write_report
from ptd_ext.utils.atomic_files import atomic_file
from ptd_ext.utils.bounded_files import shortened

__all__ = ["COLUMNS", "LabelIssues", "judge"]

_NAMED = 5  # classes in a sentence
COLUMNS = (
    "id",
    "given_label",
    "suggested_label",
    "label_quality",
    "is_label_issue",
    "suggested_probability",
)


@dataclass(frozen=True)
class LabelIssues:
    """The judgement of every row's label.

    Attributes:
        ids: the ids of the rows: a data frame's index, file names, or row numbers, [N].
        given_label: the labels as they came, [N].
        suggested_label: for flagged rows the most probable *other* class, for all others the given
            label, [N].
        label_quality: P(true label = given label | x, given label), [N].
        is_label_issue: true for flagged rows, [N]. For each given label, as many rows are flagged
            as are estimated to be wrong (times `flag_share`); none if `trusted` is false.
        suggested_probability: P(true label = suggested label | x, given label), [N].
        posterior: P(true label | x, given label), [N, C].
        classes: the classes, [C], in the order of `posterior`.
        noise_rate: estimated shares of wrong labels, overall and by class, with intervals.
        transition: the mean of T(x) over the rows, [C, C]: entry (i, k) is the probability that a
            row of class i carries the label k.
        parts: the part transitions, [R, C, C], where T(x) differs between rows.
        part_shares: the mean weight of each part, [R].
        trusted: whether the model clearly beats chance; if not, no row is flagged.
        warnings: reasons for distrust, in whole sentences.
        facts: name to value, such as the method and the network, for the report.
        curves: values per epoch of training, for the report.
        sample: a function from the position of a row to what the report shows of it.
    """

    ids: NDArray[Any]
    given_label: NDArray[Any]
    suggested_label: NDArray[Any]
    label_quality: NDArray[np.float64]
    is_label_issue: NDArray[np.bool_]
    suggested_probability: NDArray[np.float64]
    posterior: NDArray[np.float32]
    classes: NDArray[Any]
    noise_rate: NoiseRate
    transition: NDArray[np.float64]
    parts: NDArray[np.float64] | None = None
    part_shares: NDArray[np.float64] | None = None
    trusted: bool = True
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sample: Callable[[int], Sample] | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.ids)

    def __str__(self) -> str:
        flagged = int(self.is_label_issue.sum())
        lines = [
            f"{flagged:,} of {len(self):,} labels are probably wrong; "
            f"estimated noise rate {self.noise_rate.overall}"
        ]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    @property
    def table(self) -> Any:
        """A row per label, in the caller's order: a pandas DataFrame, or arrays by column name."""
        columns = {name: getattr(self, "ids" if name == "id" else name) for name in COLUMNS}
        if importlib.util.find_spec("pandas") is None:
            return columns
        import pandas as pd

        return pd.DataFrame(columns)

    def most_doubtful(self) -> NDArray[np.int64]:
        """Positions of all rows, the least trustworthy label first."""
        return np.argsort(self.label_quality, kind="stable")

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the table, in the caller's order and with probabilities to the last digit."""
        columns = [self._written_ids(), *(getattr(self, name).tolist() for name in COLUMNS[1:])]
        # Names of files may have bytes that are no text; they are written as they are.
        with (
            atomic_file(Path(path)) as temporary,
            open(temporary, "w", newline="", encoding="utf-8", errors="surrogateescape") as file,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(zip(*columns, strict=True))
        return Path(path)

    def _written_ids(self) -> list[Any]:
        # NumPy makes plain numbers of times in nanoseconds.
        return (self.ids.astype(str) if self.ids.dtype.kind in "mM" else self.ids).tolist()

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Label issues",
        sample: Callable[[int], Sample] | None = None,
        most_samples: int = 500,
    ) -> Path:
        """Write the page: one HTML file that needs no network.

        Args:
            path: the file to write.
            title: the title of the page.
            sample: a function from the position of a row to what is shown of it: a picture, a text
                or a table row; by default the rows given to :func:`ptd_ext.find_label_issues`.
            most_samples: how many of the most doubtful rows the page holds.
        """
        index = {label: position for position, label in enumerate(self.classes.tolist())}
        contents = ReportContents(
            title=title,
            class_names=[str(label) for label in self.classes.tolist()],
            ids=[str(each) for each in self._written_ids()],
            given=np.array([index[label] for label in self.given_label.tolist()], dtype=np.int64),
            suggested=np.array(
                [index[label] for label in self.suggested_label.tolist()], dtype=np.int64
            ),
            label_quality=self.label_quality,
            suggested_probability=self.suggested_probability,
            is_label_issue=self.is_label_issue,
            noise_rate=self.noise_rate.overall,
            noise_rate_by_class=self.noise_rate.by_class,
            transition=self.transition,
            parts=self.parts,
            part_shares=self.part_shares,
            warnings=self.warnings,
            facts=self.facts,
            curves=self.curves,
            sample=sample or self.sample,
        )
        return write_report(contents, path, most_samples=most_samples)


def judge(
    posterior: NDArray[np.float32],
    labels: GivenLabels,
    transition: NDArray[np.float64],
    *,
    joint: NDArray[np.float64] | None = None,
    ids: Any = None,
    flag_share: float = 1.0,
    trusted: bool = True,
    warnings: tuple[str, ...] = (),
    **about: Any,
) -> LabelIssues:
    """Make the findings from P(true label | x, given label).

    Args:
        posterior: [N, C].
        labels: given labels, [N].
        transition: the mean of T(x), [C, C].
        joint: of a model that was trained on these rows: P(true class, given label) that it expects
            of a row, [C, C].
        ids: [N]; row numbers by default.
        flag_share: as in :func:`ptd_ext.find_label_issues`.
        trusted: if false, no row is flagged and no label suggested.
        warnings: sentences on what to distrust of the model.
        about: further fields of the result.
    """
    check_flag_share(flag_share)
    given, rows = labels.codes, np.arange(len(labels.codes))
    quality = posterior[rows, given].astype(np.float64)
    rates = noise_rate(quality, given, len(labels.classes), joint)
    flagged = np.zeros(len(rows), dtype=bool)
    if trusted:
        flagged = flag_issues(quality, given, rates, flag_share)
    others = posterior.copy()
    others[rows, given] = -1
    suggested = np.where(flagged, others.argmax(1), given)
    return LabelIssues(
        ids=rows if ids is None else as_ids(ids, len(rows)),
        given_label=labels.classes[given],
        suggested_label=labels.classes[suggested],
        label_quality=quality,
        is_label_issue=flagged,
        suggested_probability=posterior[rows, suggested].astype(np.float64),
        posterior=posterior,
        classes=labels.classes,
        noise_rate=rates,
        transition=transition,
        trusted=trusted,
        warnings=(*warnings, *_doubts_of_classes(labels)),
        **about,
    )


def _doubts_of_classes(labels: GivenLabels) -> tuple[str, ...]:
    """A sentence if some classes have a single row."""
    lone = np.flatnonzero(np.bincount(labels.codes, minlength=len(labels.classes)) == 1)
    if not len(lone):
        return ()
    names = ", ".join(shortened(labels.names[code]) for code in lone[:_NAMED])
    more = f" and {len(lone) - _NAMED} more" if len(lone) > _NAMED else ""
    which = f"Class {names} has" if len(lone) == 1 else f"Classes {names}{more} have"
    return (
        f"{which} one row, from which a class cannot be learned: whether that label is right is "
        "not known.",
    )
