"""Measure time and memory of neighbour_transition, including the search for neighbours.

`recall` is the share of the nearest neighbours that are found, of 500 samples; `transition_error`
the largest error of an entry of T. A quarter of the labels is wrong.

    python benchmarks/bench_neighbours.py --csv neighbours.csv --samples 20000 1000000
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import measure
import torch

import ptd_ext
from ptd_ext.transition import neighbours
from ptd_ext.transition.similarity import directions

NOISE = 0.25
WARM_UP = 2000  # samples of a run that is not written


def recall(features: torch.Tensor, found: torch.Tensor) -> float:
    """The share of the nearest neighbours of some samples that are among those found."""
    rows = directions(features)
    sample = torch.arange(0, len(rows), max(1, len(rows) // 500))
    similar = rows[sample] @ rows.T
    similar[torch.arange(len(sample)), sample] = -torch.inf
    exact = similar.topk(found.shape[1], dim=1).indices
    return (exact[:, :, None] == found[sample][:, None]).any(2).double().mean().item()


def main(argv: list[str] | None = None) -> None:
    """Time every size once, after a warm-up."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--samples", nargs="+", type=int, default=[20_000, 100_000])
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--classes", type=int, default=10)
    arguments = parser.parse_args(argv)
    rows: list[dict[str, object]] = []
    searched = {}
    search = neighbours.nearest_neighbours

    def remember(features: torch.Tensor, k: int) -> torch.Tensor:
        searched["found"] = search(features, k)
        return searched["found"]

    neighbours.nearest_neighbours = remember
    for samples in [WARM_UP, *sorted(arguments.samples)]:
        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(arguments.classes, (samples,), generator=generator)
        centres = torch.randn(arguments.classes, arguments.features, generator=generator)
        noise = torch.randn(samples, arguments.features, generator=generator)
        features = centres[labels] + noise
        given = ptd_ext.noise.symmetric_noise(labels, NOISE, random_state=0)
        start = time.perf_counter()
        found = ptd_ext.transition.neighbour_transition(features, given.noisy_labels)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        truth = torch.full_like(found.transition, NOISE / (arguments.classes - 1))
        error = (found.transition - truth.fill_diagonal_(1 - NOISE)).abs().max().item()
        row = {
            "samples": samples,
            "features": arguments.features,
            "classes": arguments.classes,
            "seconds": round(seconds, 3),
            "peak_memory_mib": peak,
            "recall": round(recall(features, searched["found"]), 3),
            "transition_error": round(error, 4),
            **measure.machine(),
        }
        print(row, flush=True)
        rows.append(row)
    measure.write_csv(arguments.csv, rows[1:])


if __name__ == "__main__":
    main()
