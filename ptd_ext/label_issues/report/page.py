"""Writes the report as one HTML file that fetches nothing and runs only its own script."""

from __future__ import annotations

import math
import os
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptd_ext.label_issues.report.figures import curve
from ptd_ext.label_issues.report.gallery import make_gallery
from ptd_ext.label_issues.report.matrices import show_parts, show_transition
from ptd_ext.label_issues.report.pictures import Pictures
from ptd_ext.label_issues.report.sample import Sample
from ptd_ext.label_issues.report.similar import similar_rows
from ptd_ext.utils.atomic_files import atomic_file

if TYPE_CHECKING:
    from ptd_ext.label_issues.findings import LabelIssues
    from ptd_ext.label_issues.review.audit import Audit

_HERE = Path(__file__).parent
# In this order: later ones use earlier ones.
_SCRIPTS = ("tables", "csv", "decisions", "storage", "list", "samples", "panel", "zoom", "page")
_STYLES = ("page", "review")
_SPACE = "\N{NO-BREAK SPACE}"


def write_report(
    found: LabelIssues,
    path: str | os.PathLike[str],
    *,
    title: str = "Label issues",
    sample: Callable[[int], Sample] | None = None,
    max_samples: int = 500,
    audit: Audit | None = None,
    features: Any = None,
) -> Path:
    """Write a page to review labels that are probably wrong.

    The page is one HTML file that works offline in any browser. Its samples can be filtered,
    ordered, searched and reviewed with the keyboard. The browser keeps the decisions, imports those
    of others, and downloads them as the CSV that
    :func:`ptd_ext.label_issues.read_decisions` reads. Fields are quoted as in RFC 4180 and
    otherwise unchanged, so that the file can be joined with the data by id. A spreadsheet may take
    a leading `=`, `+`, `-` or `@` for a formula; if an id or label has one, the page warns of it.

    The arguments are those of :meth:`ptd_ext.LabelIssues.report`. Pictures of more than 50 MB in
    all are written to a folder beside the page, with a warning.
    """
    if max_samples < 0:
        raise ValueError(f"max_samples must be at least 0; got {max_samples}.")
    path = Path(path)
    pictures = Pictures(path)
    similar = None if features is None or len(found) < 2 else similar_rows(features, len(found))
    page = _render(found, title, sample or found.sample, max_samples, pictures, audit, similar)
    # A string of the data may hold half of a surrogate pair, which UTF-8 cannot encode.
    with atomic_file(path) as temporary:
        Path(temporary).write_bytes(page.encode("utf-8", errors="replace"))
    pictures.remove_others()
    return path


def _render(
    found: LabelIssues,
    title: str,
    sample: Callable[[int], Sample] | None,
    max_samples: int,
    pictures: Pictures,
    audit: Audit | None,
    similar: NDArray[np.int64] | None,
) -> str:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from markupsafe import Markup
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'The report needs Jinja: pip install "ptd_ext[all]".', name=error.name
        ) from None

    environment = Environment(
        loader=FileSystemLoader(_HERE / "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = _percent
    environment.filters["points"] = _points
    scripts = [_asset(f"{name}.js") for name in _SCRIPTS]
    style = "".join(_asset(f"{name}.css") for name in _STYLES)
    names = [str(label) for label in found.classes.tolist()]
    gallery = make_gallery(found, names, sample, max_samples, pictures, audit, similar)
    curves = [curve(name, values) for name, values in found.curves.items()]
    given, rates = found.class_indices(found.given_label), found.noise_rate.by_class
    labels, flagged = (
        np.bincount(codes, minlength=len(names)).tolist()
        for codes in (given, given[found.is_label_issue])
    )
    parts = None
    if found.parts is not None and found.part_shares is not None:
        parts = show_parts(found.parts, found.part_shares, found.transition, names)
    return environment.get_template("page.html").render(
        title=title,
        found=found,
        names=names,
        count=len(found),
        gallery=gallery,
        audit=audit,
        pictures=pictures,
        rates=list(zip(names, rates, labels, flagged, strict=True)),
        highest_rate=max([0.01, *(rate.high for rate in rates if rate.known)]),
        transition=show_transition(found.transition, names),
        parts=parts,
        curves=[shown for shown in curves if shown is not None],
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        style_hash=_csp_hash(style),
        script_hashes=[_csp_hash(script) for script in scripts],
    )


def _asset(name: str) -> str:
    return (_HERE / "assets" / name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    """The hash of a script or style sheet that the content security policy of the page allows."""
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


def _percent(value: float) -> str:
    """Format a probability in percent; values that would round to 0 or 1 show as bounds."""
    if math.isnan(value):
        return "unknown"
    if 0 < value < 0.001:
        return f"< 0.1{_SPACE}%"
    if 0.999 < value < 1:
        return f"> 99.9{_SPACE}%"
    return f"{100 * min(max(value, 0.0), 1.0):.1f}{_SPACE}%"


def _points(value: float) -> str:
    """Format a difference of probabilities in percentage points, with a sign."""
    return f"{100 * value:+.1f}".replace("-", "−")
