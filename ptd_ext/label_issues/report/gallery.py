"""The most doubtful samples, prepared for the scripts of the page within size limits."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.label_issues.report.pictures import Pictures
from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.label_issues.report.unusual import UnusualColumns, is_table
from ptd_ext.utils.png import png_size

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues
    from ptd_ext.label_issues.review.audit import Audit

_SMALL_PICTURE = 64  # pixels on either side
_MAX_TEXTS = 20 << 20  # characters of all texts together
_MIN_TEXT, _MAX_TEXT = 500, 20_000  # characters of one text
_MAX_COLUMNS = 50
_MAX_VALUE = 200  # characters of one value in a row
_RANKED = 9  # most probable classes of a sample, which have number keys if there are many classes


@dataclass(frozen=True)
class Gallery:
    """The samples shown, as the scripts of the page read them.

    Attributes:
        payload: columns of values by name, an entry per sample, the flagged ones first; `fix` and
            `measure` are ranks in the orders that fix most and that measure.
        count: the number of samples.
        pairs: pairs of given and suggested class with their counts, the most frequent first.
        flagged: the number of flagged samples, shown or not.
        shown_flagged: the number of flagged samples that are shown.
        pictures: whether the first sample is a picture.
        formula_like: whether a spreadsheet could take an id or a label for a formula.
    """

    payload: dict[str, Any]
    count: int
    pairs: list[tuple[tuple[int, int], int]]
    flagged: int
    shown_flagged: int
    pictures: bool
    formula_like: bool

    @property
    def unflagged(self) -> int:
        """The number of samples shown that are not flagged."""
        return self.count - self.shown_flagged


def make_gallery(
    found: LabelIssues,
    names: Sequence[str],
    show: Callable[[int], Sample] | None,
    max_samples: int,
    pictures: Pictures,
    audit: Audit | None = None,
    similar: NDArray[np.int64] | None = None,
) -> Gallery:
    """Show flagged samples, then others for which another label is likelier, up to `max_samples`.

    If no sample is flagged, the gallery is empty: mere doubts would look like findings. Of an
    audit, all rows are shown in its order, without suggestions, probabilities or flags.
    """
    rows = rows_shown(found)[:max_samples] if audit is None else audit.positions
    given, suggested = (
        found.class_indices(labels[rows]).tolist()
        for labels in (found.given_label, found.suggested_label)
    )
    all_ids = found.id_strings()
    ids = [all_ids[row] for row in rows.tolist()]
    flags, quality = found.is_label_issue[rows], found.label_quality[rows]
    neighbours = [] if similar is None or audit is not None else similar[rows].tolist()
    others = sorted({other for near in neighbours for other in near})
    shown, columns = _contents(show, [*rows.tolist(), *others], pictures)
    contents = shown[: len(rows)]
    if audit is None:
        _mark_unusual(contents, found, rows.tolist(), getattr(show, "rows", None))
    payload = {
        "digest": _digest(names, ids, given, suggested if audit is None else [audit.name]),
        "classes": list(names),
        "ids": ids,
        "given": given,
        "columns": columns,
        "contents": contents,
    }
    if audit is None:
        payload |= {
            "suggested": suggested,
            "quality": _rounded(quality),
            "probability": _rounded(found.suggested_probability[rows]),
            "flagged": flags.astype(int).tolist(),
            "ranking": _ranking(found.posterior[rows]),
            "fix": _ranks(-clear_errors(quality, found.posterior[rows])),
            "measure": _ranks(sampling_keys(1 - quality)),
        }
        if neighbours:
            codes = found.class_indices(found.given_label[others]).tolist()
            names_of_others = [all_ids[row] for row in others]
            place = {row: index for index, row in enumerate(others)}
            payload |= {
                "similar": [[place[other] for other in near] for near in neighbours],
                "others": list(zip(names_of_others, codes, shown[len(rows) :], strict=True)),
            }
    else:
        payload["audit"] = audit.name
    return Gallery(
        payload=payload,
        count=len(rows),
        pairs=Counter(zip(given, suggested, strict=True)).most_common(),
        flagged=int(found.is_label_issue.sum()),
        shown_flagged=int(flags.sum()),
        pictures=bool(contents) and "picture" in contents[0],
        formula_like=any(map(_formula_like, (*names, *ids))),
    )


def clear_errors(
    quality: NDArray[np.float64], posterior: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """How clearly each label is another one: cross entropy minus entropy of the posterior, [N]."""
    p = np.clip(posterior.astype(np.float64), 1e-12, 1)
    return -np.log(np.clip(quality, 1e-12, 1)) + (p * np.log(p)).sum(1)


def sampling_keys(doubt: NDArray[np.float64], seed: int = 0) -> NDArray[np.float64]:
    """Keys that sort rows as drawing them one by one without replacement does, ∝ `doubt`, [N]."""
    return np.random.default_rng(seed).exponential(size=len(doubt)) / np.maximum(doubt, 1e-12)


def rows_shown(found: LabelIssues) -> NDArray[np.int64]:
    """Positions of the flagged rows, then of others for which another label is likelier."""
    flags, quality = found.is_label_issue, found.label_quality
    if not flags.any():
        return np.empty(0, dtype=np.int64)
    differ = found.class_indices(found.given_label) != found.class_indices(found.suggested_label)
    chosen = np.flatnonzero(flags | ((found.suggested_probability > quality) & differ))
    return chosen[np.lexsort((chosen, quality[chosen], ~flags[chosen]))]


def _ranks(keys: NDArray[np.float64]) -> list[int]:
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return ranks.tolist()


def _rounded(values: NDArray[np.floating[Any]]) -> list[float]:
    return np.round(values.astype(np.float64), 6).tolist()


def _ranking(posterior: NDArray[np.floating[Any]]) -> list[list[tuple[int, float]]]:
    """The most probable classes of each row with their probabilities."""
    order = np.argsort(-posterior, axis=1, kind="stable")[:, :_RANKED]
    probable = np.take_along_axis(posterior, order, 1).astype(np.float64).round(4)
    pairs = zip(order.tolist(), probable.tolist(), strict=True)
    return [list(zip(codes, values, strict=True)) for codes, values in pairs]


def _contents(
    show: Callable[[int], Sample] | None, rows: Sequence[int], pictures: Pictures
) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """What the page shows of each row, and the distinct lists of column names."""
    contents: list[dict[str, Any]] = []
    if show is None:
        return [{} for _ in rows], []
    columns: dict[tuple[str, ...], int] = {}
    text_limit = min(_MAX_TEXT, max(_MIN_TEXT, _MAX_TEXTS // max(len(rows), 1)))
    for row in rows:
        sample = show(row)
        if sample.png is None:
            contents.append(_content(sample, text_limit, columns))
        else:
            contents.append({"small": int(max(png_size(sample.png)) <= _SMALL_PICTURE)})
            pictures.add(contents[-1], sample.png)
    pictures.finish()
    return contents, [list(each) for each in columns]


def _mark_unusual(
    contents: list[dict[str, Any]], found: LabelIssues, rows: Sequence[int], table: Any
) -> None:
    """Add the columns that speak for the suggested class to the contents of a table's rows."""
    if not contents or "values" not in contents[0] or not is_table(table):
        return
    columns = UnusualColumns(table, found, _MAX_COLUMNS)
    given, suggested = map(found.class_indices, (found.given_label, found.suggested_label))
    for row, content in zip(rows, contents, strict=True):
        marks = columns.of(row, int(given[row]), int(suggested[row]))
        content["unusual"] = [mark for mark in marks if mark[0] < len(content["values"])]


def _content(
    sample: Sample, text_limit: int, columns: dict[tuple[str, ...], int]
) -> dict[str, Any]:
    if sample.text is not None:
        more = len(sample.text) - text_limit
        note = {"omitted": f"{more:,} more characters are omitted."} if more > 0 else {}
        return {"text": _cut(sample.text, text_limit), **note}
    every = list((sample.row or {}).items())
    shown, more = every[:_MAX_COLUMNS], len(every) - _MAX_COLUMNS
    names = tuple(_cut(str(name), _MAX_VALUE) for name, _ in shown)
    note = {"omitted": f"{more:,} more columns are omitted."} if more > 0 else {}
    return {
        "columns": columns.setdefault(names, len(columns)),
        "values": [_cut(str(value), _MAX_VALUE) for _, value in shown],
        **note,
    }


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _formula_like(text: str) -> bool:
    """True if the text begins like a spreadsheet formula; a negative number does not count."""
    return text[:1] in tuple("=+-@\t\r") and not _is_number(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _digest(
    names: Sequence[str], ids: Sequence[str], given: Sequence[int], other: Sequence[int | str]
) -> str:
    """A hash of the content, under which the browser stores the decisions on this page."""
    content = [list(names), list(ids), list(given), list(other)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
