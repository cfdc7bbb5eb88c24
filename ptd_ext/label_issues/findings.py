"""LabelIssues: the judgement of every label, the noise rates, and their caveats."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.labels import GivenLabels, as_ids, id_list
from ptd_ext.label_issues.caveats import range_caveat
from ptd_ext.label_issues.rates import NoiseRate, check_flag_share, flag_issues, noise_rate
from ptd_ext.label_issues.review.read import read_decisions
from ptd_ext.utils.bounded_files import shortened
from ptd_ext.utils.csv_files import write_csv

if TYPE_CHECKING:
    from ptd_ext.label_issues.report.sample import Sample
    from ptd_ext.label_issues.review.apply import CleanedLabels
    from ptd_ext.label_issues.review.audit import Audit
    from ptd_ext.label_issues.review.evaluation import Evaluation

UNVERIFIED = "no"  # in the column `verified`
_NAMED_CLASSES = 5  # in one warning
COLUMNS = (
    "id",
    "given_label",
    "suggested_label",
    "label_quality",
    "is_label_issue",
    "suggested_probability",
    "verified",
)


@dataclass(frozen=True, repr=False)
class LabelIssues:
    """The judgement of every row's label.

    Attributes:
        ids: the ids of the rows: a data frame's index, file names, or row numbers, [N].
        given_label: the labels as they came, [N].
        suggested_label: for flagged rows the most probable class, for all others the given label,
            [N].
        label_quality: P(true label = given label | x, given label), [N].
        is_label_issue: true for rows of which another class is more probable than the given label,
            [N]; with `flag_share`, for fewer or more. None if `trusted` is false.
        suggested_probability: P(true label = suggested label | x, given label), [N].
        posterior: P(true label | x, given label), [N, C].
        classes: the classes, [C], in the order of `posterior`.
        noise_rate: estimated shares of wrong labels, overall and by class, with intervals.
        transition: the mean of T(x) over the rows, [C, C]: entry (i, k) is the probability that a
            row of class i carries the label k.
        parts: the part transitions, [R, C, C], where T(x) differs between rows.
        part_shares: the mean weight of each part, [R].
        trusted: whether the model clearly beats chance; if not, no row is flagged.
        warnings: caveats about the findings.
        notes: what became of each column of a data frame, and of missing values in it.
        facts: name to value, such as the method and the network, for the report.
        curves: values per epoch of training, for the report.
        verified: what reviewers decided about each label, [N]: the value of an
            :class:`ptd_ext.label_issues.Answer`, or "no" where nobody did.
        sample: a function from the position of a row to what the report shows of it.

    Examples:
        >>> y = np.repeat([0, 1], 50)
        >>> pred_probs = np.where(y[:, None] == [0, 1], 0.9, 0.1)
        >>> y[3] = 1
        >>> found = ptd_ext.find_label_issues(None, y, pred_probs=pred_probs)
        >>> len(found), found.most_doubtful()[:1]
        (100, array([3]))
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
    notes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sample: Callable[[int], Sample] | None = field(default=None, repr=False, compare=False)
    verified: NDArray[Any] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.verified is None:
            object.__setattr__(self, "verified", np.full(len(self.ids), UNVERIFIED, dtype="<U9"))

    def __len__(self) -> int:
        return len(self.ids)

    def __str__(self) -> str:
        flagged = int(self.is_label_issue.sum())
        summary = (
            f"{flagged:,} of {len(self):,} labels are probably wrong; "
            f"estimated noise rate {self.noise_rate.overall}"
        )
        return "\n".join([summary, *(f"warning: {caveat}" for caveat in self.warnings)])

    def __repr__(self) -> str:
        flagged = int(self.is_label_issue.sum())
        return (
            f"LabelIssues({len(self):,} labels, {len(self.classes)} classes, {flagged:,} flagged, "
            f"noise rate {self.noise_rate.overall})"
        )

    def _repr_html_(self) -> str:
        from ptd_ext.label_issues.notebook import findings_html

        return findings_html(self)

    @property
    def table(self) -> Any:
        """A pandas DataFrame with a row per label, in the caller's order."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                'LabelIssues.table needs pandas: pip install "ptd_ext[all]".', name="pandas"
            ) from None
        return pd.DataFrame(
            {name: getattr(self, "ids" if name == "id" else name) for name in COLUMNS}
        )

    @property
    def is_verified(self) -> NDArray[np.bool_]:
        """True for rows whose label a reviewer decided about, [N]; no such row is flagged."""
        return np.asarray(self.verified != UNVERIFIED)

    def most_doubtful(self) -> NDArray[np.int64]:
        """Positions of all rows, the least trustworthy label first."""
        return np.argsort(self.label_quality, kind="stable")

    def class_indices(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """The positions of labels in `classes`, such as those of `given_label`, [N]."""
        index = {label: position for position, label in enumerate(self.classes.tolist())}
        return np.array([index[label] for label in labels.tolist()], dtype=np.int64)

    def id_strings(self) -> list[str]:
        """The ids as the table and the report show them, [N]."""
        return [str(each) for each in id_list(self.ids)]

    def given_labels(self) -> GivenLabels:
        """The given labels as indices of `classes`."""
        return GivenLabels(self.class_indices(self.given_label), self.classes)

    def audit(self, n: int = 200, *, random_state: int = 0) -> Audit:
        """Draw a random sample of the labels, to measure the list before anyone looks at it.

        Half of the rows are drawn from the flagged ones, half from the others, without replacement
        and without rows that are verified. Review all of them, then :meth:`evaluate`.

        Args:
            n: the number of rows, if there are so many.
            random_state: the seed, which is part of the name of the audit.
        """
        from ptd_ext.label_issues.review.audit import draw_audit

        return draw_audit(self, n, random_state)

    def evaluate(self, reviewed: Any, *, audit: Audit | str | None = None) -> Evaluation:
        """Measure precision, recall and noise rate on reviewed rows, with 95 % intervals.

        Args:
            reviewed: decisions, in the forms of :func:`ptd_ext.label_issues.read_decisions`.
            audit: the audit, or its name, whose rows to use; by default that which the decisions
                name. Without an audit, all reviewed rows are used, and a warning is added.
        """
        from ptd_ext.label_issues.review.evaluation import evaluate

        return evaluate(self, reviewed, audit)

    def update(self, verified: Any, *, flag_share: float = 1.0) -> LabelIssues:
        """The findings with verified labels taken into account, without training.

        The other labels are judged again by logit P(right) = a + b · logit(quality) + u of the
        given class, fitted to the reviewed rows in whatever order these were chosen, and drawn to
        (0, 1, 0). Verified labels are never flagged.

        Args:
            verified: decisions, in the forms of :func:`ptd_ext.label_issues.read_decisions`.
            flag_share: as in :func:`ptd_ext.find_label_issues`.
        """
        from ptd_ext.label_issues.review.recalibrate import update

        check_flag_share(flag_share)
        labels = self.given_labels()
        codes = read_decisions(verified, self.ids, labels).codes(self.ids, labels)
        return update(self, codes, flag_share)

    def apply(self, decisions: Any) -> CleanedLabels:
        """The labels cleaned by decisions, and by nothing else.

        Args:
            decisions: in the forms of :func:`ptd_ext.label_issues.read_decisions`.
        """
        from ptd_ext.label_issues.review.apply import apply_decisions

        return apply_decisions(decisions, self.ids, self.given_labels())

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the table, in the caller's order and with every digit of the probabilities."""
        columns = [self.id_strings(), *(getattr(self, name).tolist() for name in COLUMNS[1:])]
        write_csv(path, COLUMNS, zip(*columns, strict=True))
        return Path(path)

    def export(
        self,
        path: str | os.PathLike[str],
        format: str,
        *,
        sample: Callable[[int], Sample] | None = None,
        max_samples: int | None = None,
    ) -> Path:
        """Write the doubtful rows with their suggestions for another tool to label with.

        :func:`ptd_ext.label_issues.read_decisions`, :meth:`update`, :meth:`evaluate` and
        :meth:`apply` read what the tool exports.

        Args:
            path: the file to write.
            format: "csv", "jsonl", "label-studio" (with a labelling config beside the file) or
                "argilla".
            sample: as for :meth:`report`.
            max_samples: the maximum number of rows; by default all that are doubtful.
        """
        from ptd_ext.label_issues.review.exchange.registry import format_of
        from ptd_ext.label_issues.review.exchange.tasks import make_tasks

        writer = format_of(format, Path(path))
        tasks = make_tasks(self, sample or self.sample, max_samples)
        writer.write(Path(path), tasks, [str(label) for label in self.classes.tolist()])
        return Path(path)

    def plot(self, axes: Any = None) -> Any:
        """Draw the noise rate of every given label and the mean T(x); returns matplotlib's axes.

        Args:
            axes: two of matplotlib's axes to draw on; by default those of a new figure.
        """
        from ptd_ext.plot import new_figure, plot_noise_rates, plot_transition

        names = [str(label) for label in self.classes.tolist()]
        rates, matrix = new_figure(width=10).subplots(1, 2) if axes is None else axes
        plot_noise_rates(self.noise_rate.by_class, names, axes=rates)
        plot_transition(self.transition, names, axes=matrix)
        return np.array([rates, matrix], dtype=object)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the findings as safetensors; all fields are kept except `sample`."""
        from ptd_ext.label_issues.findings_file import write_findings

        write_findings(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LabelIssues:
        """Read what :meth:`save` wrote; no code of the file is run.

        Raises ValueError for a damaged file or one with other contents.
        """
        from ptd_ext.label_issues.findings_file import read_findings

        return read_findings(path)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Label issues",
        sample: Callable[[int], Sample] | None = None,
        max_samples: int = 500,
        evaluation: Evaluation | None = None,
        audit: Audit | None = None,
        features: Any = None,
    ) -> Path:
        """Write a page to review the labels: one HTML file that works offline.

        Args:
            path: the file to write.
            title: the title of the page.
            sample: a function from the position of a row to what the page shows of it: a picture,
                text or the row of a table; by default the rows given to
                :func:`ptd_ext.find_label_issues`.
            max_samples: the maximum number of rows on the page, the most doubtful ones.
            evaluation: what :meth:`evaluate` measured, to be shown beside the estimates.
            audit: a sample drawn by :meth:`audit`, which the page shows instead of the doubtful
                rows, without suggestions, probabilities or flags.
            features: embeddings of the rows, [N, D], to show the three most similar rows with
                their labels beside each row.
        """
        from ptd_ext.label_issues.report.page import write_report

        shown = self
        if evaluation is not None:
            warnings = (*self.warnings, *evaluation.warnings)
            shown = replace(self, facts={**evaluation.facts(), **self.facts}, warnings=warnings)
        sample = sample or self.sample
        options = {"max_samples": max_samples, "audit": audit, "features": features}
        return write_report(shown, path, title=title, sample=sample, **options)


def judge(
    posterior: NDArray[np.float32],
    labels: GivenLabels,
    transition: NDArray[np.float64],
    *,
    rate_range: tuple[float, float] | None = None,
    ids: Any = None,
    flag_share: float = 1.0,
    trusted: bool = True,
    warnings: tuple[str, ...] = (),
    **about: Any,
) -> LabelIssues:
    """Derive the findings from P(true label | x, given label).

    Args:
        posterior: [N, C].
        labels: given labels, [N].
        transition: the mean of T(x), [C, C].
        rate_range: the range of the overall rate; by default its sampling error.
        ids: [N]; row numbers by default.
        flag_share: as in :func:`ptd_ext.find_label_issues`.
        trusted: if false, no row is flagged and no label suggested.
        warnings: caveats about the model.
        about: further fields of the result.
    """
    check_flag_share(flag_share)
    given, rows = labels.codes, np.arange(len(labels.codes))
    quality = posterior[rows, given].astype(np.float64)
    rates = noise_rate(quality, given, len(labels.classes), rate_range)
    flagged = np.zeros(len(rows), dtype=bool)
    if trusted:
        flagged = flag_issues(posterior, given, flag_share)
    best = posterior.argmax(1)
    disputed = flagged & (posterior[rows, best] > posterior[rows, given])
    suggested = np.where(disputed, best, given)
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
        warnings=(
            *warnings,
            *(range_caveat(rates, labels.names) if trusted and rate_range else ()),
            *_single_row_caveat(labels),
        ),
        **about,
    )


def _single_row_caveat(labels: GivenLabels) -> tuple[str, ...]:
    """A caveat if some classes have a single row."""
    single = np.flatnonzero(np.bincount(labels.codes, minlength=len(labels.classes)) == 1)
    if not len(single):
        return ()
    names = ", ".join(shortened(labels.names[code]) for code in single[:_NAMED_CLASSES])
    more = f" and {len(single) - _NAMED_CLASSES} more" if len(single) > _NAMED_CLASSES else ""
    which = f"Class {names} has" if len(single) == 1 else f"Classes {names}{more} have"
    return (f"{which} one row, from which a class cannot be learned; that label cannot be judged.",)
