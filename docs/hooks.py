"""Additions to mkdocs: tables of methods, networks, settings and benchmarks."""

import csv
import logging
import re
from collections.abc import Iterable
from math import exp, log
from pathlib import Path
from typing import Any

logger = logging.getLogger("mkdocs.plugins.ptd_ext")
RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
TORCH_VERSIONS = ("eager_full", "eager_column", "compile_full", "compile_column")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where a page asks for them by a comment."""
    for mark, table in TABLES.items():
        if f"<!-- {mark} -->" in markdown:
            markdown = markdown.replace(f"<!-- {mark} -->", table())
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Warn of markup of docstrings that reached the page as it is; strict builds fail then."""
    text = re.sub(r"<pre.*?</pre>|<code.*?</code>|<[^>]+>", "", html, flags=re.DOTALL)
    for raw in re.findall(r"={4,}|:(?:func|class|meth|mod):|^::: .*|<!-- \w+ -->", text):
        logger.warning(f"{page.file.src_uri} shows raw markup: {raw}")
    return html


def method_table() -> str:
    """The methods, from the registry."""
    from ptd_ext.engine.methods.registry import METHODS

    lines = ["| method | | transition matrix |", "|---|---|---|"]
    for name, method in METHODS.items():
        text = method.help if method.published else f"{method.help}. Not in the paper"
        lines.append(f"| {name} | {text} | {'' if method.kind == 'none' else method.kind} |")
    return "\n".join(lines)


def estimator_table() -> str:
    """The estimators of T(x), from the registry."""
    from ptd_ext.transition.estimators import ESTIMATORS

    lines = ["| function | estimates | needs |", "|---|---|---|"]
    for entry in ESTIMATORS.values():
        needs = ", ".join(f"`{name}`" for name in entry.needs)
        lines.append(f"| `{entry.function}` | {entry.help} | {needs} |")
    return "\n".join(lines)


def network_table() -> str:
    """The networks, from the registry."""
    from ptd_ext.engine.networks import NETWORKS

    inputs = {"anything": "rows or images", "images": "images", "tokens": "tokens"}
    lines = ["| network | | input |", "|---|---|---|"]
    lines += [f"| `{name}` | {n.help} | {inputs[n.takes]} |" for name, n in NETWORKS.items()]
    return "\n".join(lines)


def settings_tables() -> str:
    """One table for each section, from the entries of the settings."""
    from ptd_ext.engine.settings.settings import SECTIONS
    from ptd_ext.experiments.settings import ExperimentSettings

    lines = []
    for section, about in SECTIONS.items():
        lines += [f"### {section}", "", f"{about[0].upper()}{about[1:]}.", ""]
        lines += ["| flag | default | |", "|---|---|---|"]
        for entry in ExperimentSettings.entries().values():
            if entry.section != section:
                continue
            shown = f"`{entry.default}`" if entry.default != "" else ""
            text = entry.help.replace("|", "\\|")
            if limits := ", ".join(entry.choices) or entry.bounds:
                text += f" ({limits})"
            lines.append(f"| `{entry.flag}` | {shown} | {text} |")
        lines.append("")
    return "\n".join(lines)


def data_set_table() -> str:
    """The registry of data sets."""
    from ptd_ext.experiments.datasets import DATA_SETS

    lines = ["| `--dataset` | | flags of its own |", "|---|---|---|"]
    for name, entry in DATA_SETS.items():
        flags = ", ".join(f"`--{option.replace('_', '-')}`" for option in entry.all_options)
        lines.append(f"| `{name}` | {entry.help} | {flags} |")
    return "\n".join(lines)


def noise_table() -> str:
    """The registry of noise kinds."""
    from ptd_ext.noise.kinds import KINDS

    lines = ["| `--noise` | labels that the noise makes wrong become |", "|---|---|"]
    lines += [f"| `{name}` | {kind.help} |" for name, kind in KINDS.items()]
    return "\n".join(lines)


def loss_table() -> str:
    """Every size of the benchmark of the losses, and means over them."""
    sizes: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows("transition_loss_cpu.csv"):
        size = tuple(row[name] for name in ("samples", "classes", "parts", "parts_kind", "slack"))
        sizes.setdefault(size, {})[row["contestant"]] = row
    lines = [
        "| N, C, R | parts, slack | ptd_ext | plain parts | best torch | times faster | ÷ CE | "
        "memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {}
    for size, times in sizes.items():
        ours = float(times["ptd_ext"]["median_us"])
        plain = float(times["ptd_ext_plain_parts"]["median_us"])
        best = min(float(times[name]["median_us"]) for name in TORCH_VERSIONS if name in times)
        floor = float(times["cross_entropy"]["median_us"])
        memory = int(times["ptd_ext"]["peak_bytes"]) / int(times["ptd_ext"]["input_bytes"])
        ratios.setdefault(size[-1], []).append(best / ours)
        lines.append(
            f"| {', '.join(size[:3])} | {', '.join(size[3:])} | {duration(ours)} | "
            f"{duration(plain)} | {duration(best)} | {best / ours:.1f} | {ours / floor:.1f} | "
            f"{memory:.2f} |"
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


TABLES = {
    "estimators": estimator_table,
    "methods": method_table,
    "networks": network_table,
    "settings": settings_tables,
    "data sets": data_set_table,
    "noise": noise_table,
    "losses": loss_table,
    "nmf": nmf_table,
}
