"""How notebooks show the findings: a summary, the most doubtful labels and the mean T(x)."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ptd_ext.utils.html import Markup, heat_map, markup, picture, table

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues

_ROWS = 5  # most doubtful labels
_MAX_TEXT = 80  # characters of a text or of one value
_MAX_COLUMNS = 4


def findings_html(found: LabelIssues) -> str:
    """The findings as HTML, every string of the data escaped."""
    names = [str(label) for label in found.classes.tolist()]
    summary, *caveats = (escape(line) for line in str(found).split("\n"))
    blocks = [f"<p><b>{summary}</b></p>", *(f"<p>{caveat}</p>" for caveat in caveats)]
    if rows := _most_doubtful(found):
        blocks.append(table(("id", "given label", "suggested label", "quality", ""), rows))
    blocks.append(_details("Noise rates", found.noise_rate.html(names)))
    blocks.append(_details("Transition matrix", heat_map(found.transition, names)))
    return "".join(blocks)


def _details(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>{content}</details>"


def _most_doubtful(found: LabelIssues) -> list[tuple[object, ...]]:
    ids = found.id_strings()
    flagged = [row for row in found.most_doubtful().tolist() if found.is_label_issue[row]]
    return [
        (
            ids[row],
            found.given_label[row],
            found.suggested_label[row],
            f"{found.label_quality[row]:.3f}",
            _shown(found, row),
        )
        for row in flagged[:_ROWS]
    ]


def _shown(found: LabelIssues, row: int) -> Markup:
    """The row itself: a small picture, the beginning of its text, or its first columns."""
    if found.sample is None:
        return Markup()
    sample = found.sample(row)
    if sample.png is not None:
        return picture(sample.png, "3em")
    if sample.text is not None:
        return markup(_cut(sample.text))
    columns = list((sample.row or {}).items())
    shown = ", ".join(f"{_cut(str(k))}: {_cut(str(v))}" for k, v in columns[:_MAX_COLUMNS])
    return markup(shown + (", …" if len(columns) > _MAX_COLUMNS else ""))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
