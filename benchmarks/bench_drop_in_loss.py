"""Compare the loss in a plain loop (examples/drop_in_loss.py) with cross entropy on several seeds.

python benchmarks/bench_drop_in_loss.py
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

import measure
import torch

EXAMPLE = Path(__file__).parent.parent / "examples" / "drop_in_loss.py"
FIELDS = ("wrong", "cross_entropy", "through_transition")


def main(argv: list[str] | None = None) -> None:
    """Run the example with every seed, and write the accuracies."""
    parser = measure.parser_for(__doc__, "drop_in_loss.csv")
    parser.add_argument("--seeds", nargs="+", type=int, default=range(1, 6))
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    rows = []
    for seed in arguments.seeds:
        command = [sys.executable, str(EXAMPLE), str(seed)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = dict(zip(FIELDS, re.findall(r"([\d.]+)%", text), strict=True))
        print(seed, found, flush=True)
        rows.append({"seed": seed, **found, **measure.machine()})
    for field in FIELDS:
        values = [float(row[field]) for row in rows]
        print(f"{field}: mean {statistics.mean(values):.1f}, least {min(values):.1f}")
    measure.write_csv(arguments.out, rows)


if __name__ == "__main__":
    main()
