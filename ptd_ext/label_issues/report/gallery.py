"""The most doubtful samples, prepared for the template within size limits."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.utils.png import data_url, png_size

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues

_MAX_PICTURE_BYTES = 24 << 20  # all pictures together
_SMALL_PICTURE = 64  # pixels on either side
_MAX_TEXT = 2000  # characters
_MAX_COLUMNS = 50
_MAX_VALUE = 200  # characters of one value in a row


@dataclass(frozen=True)
class ShownSample:
    """One sample in the gallery; `given` and `suggested` are class indices."""

    id: str
    given: int
    suggested: int
    label_quality: float
    suggested_probability: float
    is_label_issue: bool
    picture: str | None = None  # a data URL
    small: bool = False  # a picture whose pixels stay sharp when enlarged
    text: str | None = None
    row: tuple[tuple[str, str], ...] | None = None
    omitted: str | None = None  # a note on what is not shown


@dataclass(frozen=True)
class Gallery:
    """The samples shown, the most doubtful first.

    Attributes:
        samples: flagged ones before others.
        pairs: pairs of given and suggested class with their counts, the most frequent first.
        flagged: the number of flagged samples, shown or not.
        formula_like: whether a spreadsheet could take an id or a label for a formula.
        digest: a hash of the content, under which the browser stores the decisions on this page.
    """

    samples: tuple[ShownSample, ...]
    pairs: list[tuple[tuple[int, int], int]]
    flagged: int
    formula_like: bool
    digest: str


def make_gallery(
    found: LabelIssues,
    names: Sequence[str],
    show: Callable[[int], Sample] | None,
    max_samples: int,
) -> Gallery:
    """Show flagged samples, then others for which another label is likelier, up to `max_samples`.

    If no sample is flagged, the gallery is empty: mere doubts would look like findings.
    """
    flags, quality = found.is_label_issue, found.label_quality
    given, suggested = map(found.class_indices, (found.given_label, found.suggested_label))
    likelier = (found.suggested_probability > quality) & (given != suggested)
    chosen = np.flatnonzero(flags | likelier) if flags.any() else np.empty(0, int)
    order = np.lexsort((chosen, quality[chosen], ~flags[chosen]))
    ids, room = found.id_strings(), _MAX_PICTURE_BYTES
    samples = []
    for index in chosen[order][:max_samples].tolist():
        content = {} if show is None else _content(show(index), room)
        sample = ShownSample(
            ids[index],
            int(given[index]),
            int(suggested[index]),
            float(quality[index]),
            float(found.suggested_probability[index]),
            bool(flags[index]),
            **content,
        )
        room -= len(sample.picture or "")
        samples.append(sample)
    pairs = Counter((sample.given, sample.suggested) for sample in samples)
    return Gallery(
        samples=tuple(samples),
        pairs=pairs.most_common(),
        flagged=int(flags.sum()),
        formula_like=any(map(_formula_like, (*names, *(sample.id for sample in samples)))),
        digest=_digest(names, samples),
    )


def _content(sample: Sample, room: int) -> dict[str, Any]:
    """The fields of a ShownSample that show the row, with pictures of at most `room` characters."""
    if sample.png is not None:
        picture = data_url(sample.png)
        if len(picture) > room:
            return {"omitted": "This picture is omitted to limit the size of the page."}
        return {"picture": picture, "small": max(png_size(sample.png)) <= _SMALL_PICTURE}
    if sample.text is not None:
        return {"text": _cut(sample.text, _MAX_TEXT)}
    columns = list((sample.row or {}).items())
    row = tuple(
        (_cut(str(name), _MAX_VALUE), _cut(str(value), _MAX_VALUE))
        for name, value in columns[:_MAX_COLUMNS]
    )
    more = len(columns) - _MAX_COLUMNS
    return {"row": row, "omitted": f"{more:,} more columns are omitted." if more > 0 else None}


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


def _digest(names: Sequence[str], samples: Sequence[ShownSample]) -> str:
    content = [list(names), [(s.id, s.given, s.suggested) for s in samples]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
