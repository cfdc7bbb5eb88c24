"""Writes the report as one HTML file that fetches nothing and runs only its own script."""

from __future__ import annotations

import math
import os
import re
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ptd_ext.label_issues.report.contents import Interval, ReportContents, check_contents
from ptd_ext.label_issues.report.figures import bar, curve
from ptd_ext.label_issues.report.gallery import make_gallery
from ptd_ext.label_issues.report.matrices import show_parts, show_transition
from ptd_ext.utils.atomic_files import atomic_file

__all__ = ["write_report"]

_HERE = Path(__file__).parent
_SCRIPTS = ("vendor/jquery.slim.min.js", "vendor/dataTables.min.js", "assets/page.js")
_STYLE = "assets/page.css"
_SPACE = "\N{NO-BREAK SPACE}"
_ENDS_SCRIPT = re.compile(r"</(script|style)|<!--", re.IGNORECASE)


def write_report(
    contents: ReportContents, path: str | os.PathLike[str], *, most_samples: int = 500
) -> Path:
    """Write a page that shows which labels are probably wrong.

    The page is one HTML file that fetches nothing: open it in any browser, send it, keep it. Its
    gallery can be filtered, sorted, searched and reviewed with the keyboard; the decisions are kept
    by the browser, and downloaded as a CSV with the columns `id`, `given_label`, `suggested_label`,
    `decision` (accepted or rejected) and `corrected_label`. The fields are quoted as RFC 4180 says
    and otherwise unchanged, so that the file can be joined with the data by id. A leading `=`, `+`,
    `-` or `@`, which a spreadsheet may take for a formula, is therefore kept; if there is one, the
    page warns of it beside the button.

    Args:
        contents: the findings.
        path: the file to write; an existing one is replaced atomically.
        most_samples: how many samples the gallery shows at most: flagged ones, the most doubtful
            first. Pictures take 24 MB at most; the page says which are left out beyond that.

    Returns:
        The path.
    """
    check_contents(contents)
    if most_samples < 0:
        raise ValueError(f"most_samples must be at least 0; got {most_samples}.")
    page = _render(contents, most_samples)
    path = Path(path)
    # A text of the data may hold half of a surrogate pair, which UTF-8 cannot encode.
    with atomic_file(path) as temporary:
        Path(temporary).write_bytes(page.encode("utf-8", errors="replace"))
    return path


def _render(contents: ReportContents, most_samples: int) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_HERE / "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = _percent
    environment.filters["points"] = _points
    scripts = [_own_text(name) for name in _SCRIPTS]
    style = _own_text(_STYLE)
    gallery = make_gallery(contents, most_samples)
    names = [str(name) for name in contents.class_names]
    payload = {
        "digest": gallery.digest,
        "classes": names,
        "samples": [[s.id, s.given, s.suggested, s.flagged] for s in gallery.samples],
    }
    curves = [curve(str(name), values) for name, values in contents.curves.items()]
    return environment.get_template("page.html").render(
        contents=contents,
        names=names,
        count=len(contents.ids),
        gallery=gallery,
        rates=_rates(contents),
        overall=_Rate.of(contents.noise_rate, longest=1.0),
        transition=show_transition(np.asarray(contents.transition, dtype=float), names),
        parts=show_parts(contents, names),
        curves=[shown for shown in curves if shown is not None],
        payload=payload,
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        style_hash=_csp_hash(style),
        script_hashes=[_csp_hash(script) for script in scripts],
    )


@dataclass(frozen=True)
class _Rate:
    """The noise rate of a class, or overall."""

    interval: Interval
    known: bool
    bar: Any
    labels: int = 0
    flagged: int = 0

    @classmethod
    def of(cls, interval: Interval, longest: float, labels: int = 0, flagged: int = 0) -> _Rate:
        known = not math.isnan(interval.estimate)
        return cls(interval, known, bar(interval, longest), labels, flagged)


def _rates(contents: ReportContents) -> list[_Rate]:
    """A row per class; the longest whisker fills the width."""
    classes = len(contents.class_names)
    given, flags = np.asarray(contents.given), np.asarray(contents.is_label_issue)
    labels = np.bincount(given, minlength=classes)
    flagged = np.bincount(given[flags], minlength=classes)
    known = (rate for rate in contents.noise_rate_by_class if not math.isnan(rate.estimate))
    highs = [rate.high for rate in known]
    longest = max([0.01, *highs])
    return [
        _Rate.of(rate, longest, int(labels[label]), int(flagged[label]))
        for label, rate in enumerate(contents.noise_rate_by_class)
    ]


def _own_text(name: str) -> str:
    """A script or style sheet of this package, which goes into the page as it is."""
    text = (_HERE / name).read_text(encoding="utf-8")
    if _ENDS_SCRIPT.search(text):
        raise ValueError(f"{name} would end its own element of the page.")
    return text


def _csp_hash(text: str) -> str:
    """The hash by which the page's content security policy admits a script or style sheet."""
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


def _percent(value: float) -> str:
    """A probability in percent as text; near 0 and 1 it says on which side of rounding it is."""
    if math.isnan(value):
        return "unknown"
    if 0 < value < 0.001:
        return f"< 0.1{_SPACE}%"
    if 0.999 < value < 1:
        return f"> 99.9{_SPACE}%"
    return f"{100 * min(max(value, 0.0), 1.0):.1f}{_SPACE}%"


def _points(value: float) -> str:
    """A difference of probabilities, in percentage points with a sign."""
    return f"{100 * value:+.1f}".replace("-", "−")
