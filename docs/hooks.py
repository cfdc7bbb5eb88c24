"""Additions to mkdocs: tables from settings and benchmarks, roles of docstrings."""

import csv
import re
from collections.abc import Iterable
from math import exp, log
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
TORCH_VERSIONS = ("eager_full", "eager_column", "compile_full", "compile_column")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where a page asks for them by a comment."""
    for mark, table in TABLES.items():
        if f"<!-- {mark} -->" in markdown:
            markdown = markdown.replace(f"<!-- {mark} -->", table())
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Docstrings say :func:`name` and end a line before an indented block with two colons."""
    html = re.sub(r":(?:func|class|meth|mod|attr):(?=<code>)", "", html)
    return re.sub(r"::</p>", ":</p>", html)


def settings_tables() -> str:
    """One table for each section, from the fields that the flags are made from."""
    from ptd_ext.train.config.settings import SECTIONS, Settings, describe

    lines = []
    for section, about in SECTIONS.items():
        lines += [f"### {section}", "", f"{about[0].upper()}{about[1:]}.", ""]
        lines += ["| flag | default | |", "|---|---|---|"]
        for name in Settings.__dataclass_fields__:
            setting = describe(name)
            if setting["section"] != section:
                continue
            default = setting["default"]
            shown = f"`{default}`" if default != "" else ""
            text = setting["help"].replace("|", "\\|")
            if setting["choices"]:
                text += f" ({', '.join(setting['choices'])})"
            lines.append(f"| `--{name.replace('_', '-')}` | {shown} | {text} |")
        lines.append("")
    return "\n".join(lines)


def loss_table() -> str:
    """Every size of the benchmark of the losses, and means over them."""
    sizes: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows("transition_loss_cpu.csv"):
        size = tuple(row[name] for name in ("samples", "classes", "parts", "parts_kind", "slack"))
        sizes.setdefault(size, {})[row["contestant"]] = row
    lines = [
        "| N, C, R | parts, slack | ptd_ext | best torch | times faster | ÷ CE | memory |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {}
    for size, times in sizes.items():
        ours = float(times["ptd_ext"]["median_us"])
        best = min(float(times[name]["median_us"]) for name in TORCH_VERSIONS if name in times)
        floor = float(times["cross_entropy"]["median_us"])
        memory = int(times["ptd_ext"]["peak_bytes"]) / int(times["ptd_ext"]["input_bytes"])
        ratios.setdefault(size[-1], []).append(best / ours)
        lines.append(
            f"| {', '.join(size[:3])} | {', '.join(size[3:])} | {duration(ours)} | "
            f"{duration(best)} | {best / ours:.1f} | {ours / floor:.1f} | {memory:.2f} |"
        )
    means = "; ".join(
        f"slack {slack}: {mean(found):.1f} (at least {min(found):.2f})"
        for slack, found in ratios.items()
    )
    return "\n".join([*lines, "", f"Geometric means of the column “times faster”: {means}."])


def nmf_table() -> str:
    """The benchmark of SimplexNMF."""
    lines = ["| rows × features, parts | what | | seconds | ÷ ptd_ext | squared error |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows("simplex_nmf_cpu.csv"):
        lines.append(
            f"| {int(row['rows']):,} × {row['features']}, {row['parts']} | {row['what']} | "
            f"{row['contestant']} | {float(row['seconds']):.3g} | {row['ratio']} | "
            f"{row['squared_error']} |"
        )
    return "\n".join(lines)


def rows(name: str) -> Iterable[dict[str, str]]:
    with open(RESULTS / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def duration(microseconds: float) -> str:
    return f"{microseconds / 1000:.1f} ms" if microseconds >= 5000 else f"{microseconds:.0f} µs"


def mean(values: list[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


TABLES = {"settings": settings_tables, "losses": loss_table, "nmf": nmf_table}
