"""Measure time and memory of neighbour_transition, including the search for neighbours.

python benchmarks/bench_neighbours.py --csv neighbours.csv --samples 20000 100000
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import measure
import torch

import ptd_ext


def main(argv: list[str] | None = None) -> None:
    """Time every size once, after a warm-up with the smallest."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--samples", nargs="+", type=int, default=[20_000, 100_000])
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--classes", type=int, default=10)
    arguments = parser.parse_args(argv)
    rows: list[dict[str, object]] = []
    for samples in [min(arguments.samples), *sorted(arguments.samples)]:
        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(arguments.classes, (samples,), generator=generator)
        centres = torch.randn(arguments.classes, arguments.features, generator=generator)
        noise = torch.randn(samples, arguments.features, generator=generator)
        features = centres[labels] + noise
        start = time.perf_counter()
        ptd_ext.transition.neighbour_transition(features, labels)
        seconds = time.perf_counter() - start
        row = {
            "samples": samples,
            "features": arguments.features,
            "classes": arguments.classes,
            "seconds": round(seconds, 3),
            "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            **measure.machine(),
        }
        print(row, flush=True)
        rows.append(row)
    measure.write_csv(arguments.csv, rows[1:])


if __name__ == "__main__":
    main()
