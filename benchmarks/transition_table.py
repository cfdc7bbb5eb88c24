"""Read, append and summarise rows of the comparison of estimators."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, str]]:
    """Read the rows of the file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: dict[str, Any]) -> None:
    """Append a row in one write, so that two processes can share the file."""
    values = [
        f"{v:.4f}" if isinstance(v, float) else str(v).replace(",", " ") for v in row.values()
    ]
    header = "" if path.exists() else ",".join(row) + "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(header + ",".join(values) + "\n")


def table(rows: list[dict[str, str]], role: str) -> str:
    """Mean ± standard deviation over seeds of accuracy, and the mean average precision."""
    rows = [row for row in rows if row["role"] == role]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [" | ".join(["| data, noise, network", "seeds", *methods]) + " |"]
    lines.append("|---" * (len(methods) + 2) + "|")
    for cell in dict.fromkeys(row["cell"] for row in rows):
        texts, most = [], 0
        for method in methods:
            mine = [r for r in rows if r["cell"] == cell and r["method"] == method]
            values = [float(r["accuracy"]) for r in mine]
            most = max(most, len(values))
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            precision = statistics.mean(float(r["average_precision"]) for r in mine) if mine else 0
            mean = f"{statistics.mean(values):.1f}{spread} ({precision:.1f})" if mine else "–"
            texts.append(mean + (f" [{len(values)}]" if 0 < len(values) < most else ""))
        lines.append(" | ".join([f"| {cell}", str(most), *texts]) + " |")
    return "\n".join(lines)
