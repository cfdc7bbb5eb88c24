"""Precision, recall and noise rate of a list, measured on reviewed rows."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.engine.rows.labels import id_list
from ptd_ext.label_issues.rates import Interval, NoiseRate
from ptd_ext.label_issues.review.audit import Audit, redraw
from ptd_ext.label_issues.review.decisions import Answer, Decisions
from ptd_ext.label_issues.review.intervals import UNKNOWN, Stratum, share_of_all, share_within
from ptd_ext.label_issues.review.read import read_decisions
from ptd_ext.utils.html import table

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues

MIN_REVIEWED = 10  # rows of each stratum, for the rates of a class


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What a review measured, beside what the model had estimated.

    The intervals hold for random samples of at least ten rows each of the flagged rows and of the
    others. That of the recall is too short where less than one wrong label is to be expected in the
    sample of the others: it then holds in about 92 % of the cases instead of 95 %.

    Attributes:
        precision: the share of wrong labels among the flagged rows.
        recall: the share of flagged rows among the wrong labels; rows that were verified before
            the list was made are not counted.
        noise_rate: the share of wrong labels, overall and for each given class; unknown for a class
            with too few reviewed rows.
        precision_by_class: the precision for each given class, in the order of the classes.
        estimated: the noise rate that the model had estimated.
        reviewed: the number of reviewed rows that these figures come from.
        random: whether the reviewed rows are a random sample, drawn by
            :meth:`ptd_ext.LabelIssues.audit`.
        warnings: caveats, such as that the rows are not a random sample.
    """

    precision: Interval
    recall: Interval
    noise_rate: NoiseRate
    precision_by_class: tuple[Interval, ...]
    estimated: NoiseRate
    reviewed: int
    random: bool
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{name}: {value}" for name, value in self.facts().items()]
        return "\n".join([*lines, *(f"warning: {each}" for each in self.warnings)])

    def __repr__(self) -> str:
        return (
            f"Evaluation(precision {_shown(self.precision)}, recall {_shown(self.recall)}, "
            f"{self.reviewed:,} rows reviewed)"
        )

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """The figures as HTML, for notebooks."""
        rows = table(("", "value and 95 % interval"), list(self.facts().items()))
        return rows + "".join(f"<p>{escape(each)}</p>" for each in self.warnings)

    def facts(self) -> dict[str, str]:
        """The figures by name: the rate that the model estimated, and what was measured."""
        measured = f"measured on {self.reviewed:,} reviewed rows"
        figures = {
            "noise rate, estimated by the model": self.estimated.overall,
            f"noise rate, {measured}": self.noise_rate.overall,
            f"precision of the flags, {measured}": self.precision,
            f"recall of the flags, {measured}": self.recall,
        }
        return {name: _shown(value) for name, value in figures.items()}


def evaluate(found: LabelIssues, reviewed: Any, audit: Audit | str | None = None) -> Evaluation:
    """Measure a list; arguments as of :meth:`ptd_ext.LabelIssues.evaluate`."""
    decisions = read_decisions(reviewed, found.ids, found.given_labels())
    name = _audit_name(decisions, audit)
    wrong = _wrong(found, decisions)
    warnings = []
    if name is None:
        used = np.isfinite(wrong) & ~found.is_verified
        warnings.append(
            "The reviewed rows were not drawn by audit(): unless they are a random sample of the "
            "flagged rows and of the others, the figures describe these rows only, and the "
            "intervals do not hold."
        )
    else:
        drawn = np.zeros(len(found), dtype=bool)
        drawn[redraw(found, name).positions] = True
        used = np.isfinite(wrong) & drawn
        missing = int(drawn.sum() - used.sum())
        if missing:
            warnings.append(
                f"{missing:,} of the {int(drawn.sum()):,} rows of the audit are undecided. The "
                "figures hold for them if their labels are wrong as often as those of the others."
            )
    return _figures(found, np.where(used, wrong, np.nan), name is not None, tuple(warnings))


def _audit_name(decisions: Decisions, audit: Audit | str | None) -> str | None:
    """The name of the one audit that the decisions are on; None if there is none."""
    if audit is not None:
        return audit.name if isinstance(audit, Audit) else audit
    names = sorted({each.audit for each in decisions if each.audit})
    if len(names) > 1:
        raise ValueError(
            f"reviewed must be decisions on one audit; got {', '.join(names)}. Name one as audit."
        )
    return names[0] if names else None


def _wrong(found: LabelIssues, decisions: Decisions) -> NDArray[np.float64]:
    """Whether each label is wrong: 1, 0, or NaN where that is unknown, [N]."""
    known = {
        row: float(each.answer is not Answer.CONFIRMED)
        for row, each in decisions.agreed().items()
        if each.answer is not Answer.UNSURE
    }
    return np.array([known.get(row, np.nan) for row in id_list(found.ids)])


def _figures(
    found: LabelIssues, wrong: NDArray[np.float64], random: bool, warnings: tuple[str, ...]
) -> Evaluation:
    given = found.class_indices(found.given_label)
    flagged = found.is_label_issue & ~found.is_verified
    rest = ~found.is_label_issue & ~found.is_verified
    earlier = np.where(found.is_verified, (found.verified != "confirmed").astype(float), np.nan)

    def strata(rows: NDArray[np.bool_]) -> tuple[Stratum, Stratum, Stratum]:
        parts = ((flagged, wrong), (rest, wrong), (found.is_verified, earlier))
        first, second, third = (_stratum(rows & mask, values) for mask, values in parts)
        return first, second, third

    by_class = [strata(given == code) for code in range(len(found.classes))]
    overall = strata(np.ones(len(found), dtype=bool))
    return Evaluation(
        precision=overall[0].share(),
        recall=share_within(*overall[:2]),
        noise_rate=NoiseRate(
            share_of_all(overall),
            tuple(share_of_all(each) if all(map(_enough, each)) else UNKNOWN for each in by_class),
        ),
        precision_by_class=tuple(
            each[0].share() if _enough(each[0]) else UNKNOWN for each in by_class
        ),
        estimated=found.noise_rate,
        reviewed=int(np.isfinite(wrong).sum()),
        random=random,
        warnings=warnings,
    )


def _stratum(rows: NDArray[np.bool_], wrong: NDArray[np.float64]) -> Stratum:
    values = wrong[rows & np.isfinite(wrong)]
    return Stratum(int(rows.sum()), len(values), int(values.sum()))


def _enough(stratum: Stratum) -> bool:
    return stratum.reviewed >= min(MIN_REVIEWED, stratum.size)


def _shown(interval: Interval) -> str:
    return str(interval) if interval.known else "unknown"
