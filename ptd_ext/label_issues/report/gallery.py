"""The most doubtful samples, made ready for the template within a bound on their size."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptd_ext.label_issues.report.contents import ReportContents, Sample
from ptd_ext.label_issues.report.figures import data_url, png_size

__all__ = ["Gallery", "Pair", "ShownSample", "make_gallery"]

_MOST_PICTURE_BYTES = 24 << 20  # of all pictures together
_SMALL_PICTURE = 64  # pixels on either side
_MOST_TEXT = 2000  # characters of one text
_MOST_COLUMNS = 50  # of one row
_MOST_VALUE = 200  # characters of one value in a row


@dataclass(frozen=True)
class ShownSample:
    """One sample of the gallery."""

    id: str
    given: int
    suggested: int
    quality: float
    certainty: float
    flagged: bool
    picture: str | None  # a data URL
    small: bool  # a picture whose pixels are to stay sharp when it is enlarged
    text: str | None
    row: tuple[tuple[str, str], ...] | None
    left_out: str | None  # the sentence about what is not shown


@dataclass(frozen=True)
class Pair:
    """How many shown samples have this given and this suggested label."""

    given: int
    suggested: int
    count: int


@dataclass(frozen=True)
class Gallery:
    """The samples shown, the most doubtful first.

    Attributes:
        samples: flagged ones before others.
        pairs: pairs of given and suggested label, the most frequent first.
        flagged: how many samples are flagged in all, shown or not.
        formula_like: whether a spreadsheet could take an id or a label for a formula.
        digest: a hash of the content, under which the browser stores the decisions on this page.
    """

    samples: tuple[ShownSample, ...]
    pairs: tuple[Pair, ...]
    flagged: int
    formula_like: bool
    digest: str


def make_gallery(contents: ReportContents, most_samples: int) -> Gallery:
    """Show flagged samples, then others for which another label is likelier, up to `most_samples`.

    If nothing is flagged, nothing is shown: mere doubts would look like findings.
    """
    flags = np.asarray(contents.is_label_issue)
    quality = np.asarray(contents.label_quality, dtype=float)
    likelier = np.asarray(contents.suggested_probability) > quality
    likelier &= np.asarray(contents.given) != np.asarray(contents.suggested)
    chosen = np.flatnonzero(flags | likelier) if flags.any() else np.empty(0, int)
    order = np.lexsort((chosen, quality[chosen], ~flags[chosen]))
    room = _MOST_PICTURE_BYTES
    samples = []
    for index in chosen[order][:most_samples].tolist():
        sample = contents.sample(index) if contents.sample is not None else None
        shown = _shown(contents, index, sample, room)
        room -= len(shown.picture or "")
        samples.append(shown)
    pairs = Counter((sample.given, sample.suggested) for sample in samples)
    return Gallery(
        samples=tuple(samples),
        pairs=tuple(Pair(*pair, count) for pair, count in pairs.most_common()),
        flagged=int(flags.sum()),
        formula_like=_formula_like([*contents.class_names, *(sample.id for sample in samples)]),
        digest=_digest(contents.class_names, samples),
    )


def _shown(contents: ReportContents, index: int, sample: Sample | None, room: int) -> ShownSample:
    picture = text = row = left_out = None
    small = False
    if sample is not None and sample.png is not None:
        picture, small = data_url(sample.png), max(png_size(sample.png)) <= _SMALL_PICTURE
        if len(picture) > room:
            picture, small = None, False
            left_out = "The picture is left out, to keep the page small."
    elif sample is not None and sample.text is not None:
        text = _cut(str(sample.text), _MOST_TEXT)
    elif sample is not None and sample.row is not None:
        columns = list(sample.row.items())
        row = tuple(
            (_cut(str(name), _MOST_VALUE), _cut(str(value), _MOST_VALUE))
            for name, value in columns[:_MOST_COLUMNS]
        )
        if len(columns) > _MOST_COLUMNS:
            left_out = f"{len(columns) - _MOST_COLUMNS:,} more columns are left out."
    return ShownSample(
        id=str(contents.ids[index]),
        given=int(contents.given[index]),
        suggested=int(contents.suggested[index]),
        quality=float(contents.label_quality[index]),
        certainty=float(contents.suggested_probability[index]),
        flagged=bool(contents.is_label_issue[index]),
        picture=picture,
        small=small,
        text=text,
        row=row,
        left_out=left_out,
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _formula_like(texts: Sequence[str]) -> bool:
    """True if a text begins like a spreadsheet formula; a negative number does not count."""
    return any(str(text)[:1] in tuple("=+-@\t\r") and not _is_number(str(text)) for text in texts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _digest(class_names: Sequence[str], samples: Sequence[ShownSample]) -> str:
    content = [list(map(str, class_names)), [(s.id, s.given, s.suggested) for s in samples]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
