"""Measure `find_anchors` and `fit_part_transitions` on the CPU: seconds, memory, optimality.

Every case runs in a separate process, which measures its peak of resident memory, including the
data. The peers are a sort of every column, and the same interior-point method with batches
of LAPACK's Cholesky factors.

    python benchmarks/bench_transition_fit.py [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from measure import machine, parser_for, peak_resident, write_csv
from torch import Tensor

import ptd_ext
from ptd_ext.ops.reference import simplex_least_squares as interior_point

PARTS, ANCHORS = 20, 200
FITS = [(10, 0.1), (100, 0.1), (300, 0.1), (300, 1e-5), (1000, 0.1)]  # classes, ridge
MOST_CLASSES_OF_PEER = 100


def posteriors(samples: int, classes: int, seed: int = 0) -> Tensor:
    """Probabilities of a network that is rather certain of class n mod C for sample n."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(samples, classes, generator=generator)
    rows = torch.arange(samples)
    logits[rows, rows % classes] += 4
    return torch.softmax(logits, 1, out=logits)


def timed(step: Callable[[], object], repeats: int) -> float:
    """Median seconds of a call."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def fit(classes: int, ridge: float, contestant: str) -> dict:
    """Fit parts for a number of classes, from 200 anchors each."""
    samples = ANCHORS * classes
    posterior = posteriors(samples, classes)
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(samples, PARTS, generator=generator).softmax(-1)
    anchors = [torch.arange(label, samples, classes) for label in range(classes)]
    if contestant != "ptd_ext":
        torch.ops.ptd_ext.simplex_least_squares = interior_point
    found = {}

    def step() -> None:
        result = ptd_ext.fit_part_transitions(weights, posterior, anchors, ridge=ridge)
        found["kkt_residual"] = f"{result.kkt_residual.max().item():.1e}"

    seconds = timed(step, 3 if classes <= 300 else 1)
    return {"seconds": seconds, "peak_resident_bytes": peak_resident(), **found}


def anchors_in_memory(samples: int, classes: int, contestant: str) -> dict:
    """Time find_anchors, or a sort, on posteriors in one tensor."""
    posterior = posteriors(samples, classes)

    def sort() -> list[Tensor]:
        first, last = round(0.97 * samples), round(0.99 * samples)
        spread = torch.linspace(first, last, 1000).round().long()
        return [column.argsort(stable=True)[spread] for column in posterior.T.contiguous()]

    ours = contestant == "ptd_ext"
    seconds = timed(lambda: ptd_ext.find_anchors(posterior) if ours else sort(), 3)
    return {"seconds": seconds, "peak_resident_bytes": peak_resident()}


def anchors_from_file(file: str) -> dict:
    """Time find_anchors on posteriors in a memory map."""
    posterior = np.load(file, mmap_mode="r")
    seconds = timed(lambda: ptd_ext.find_anchors(posterior), 1)
    resident = {"peak_resident_bytes": peak_resident(), "data_bytes": posterior.nbytes}
    return {"seconds": seconds, **resident}


def in_own_process(function: Callable[..., dict], *arguments: object) -> dict:
    call = json.dumps([function.__name__, arguments])
    command = [sys.executable, __file__, "--call", call]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows(samples: int, file_classes: int) -> list[dict]:
    found = []

    def row(what: str, classes: int, contestant: str, result: dict, ridge: float | None) -> None:
        seconds = result["seconds"]
        if contestant == "ptd_ext":
            row.ours = seconds
        ratio = round(seconds / row.ours, 2)
        held = result["peak_resident_bytes"] / 2**30
        print(f"{what:<24}C = {classes:<6}{contestant:<18}{seconds:9.3f} s {ratio:8.1f} "
              f"{held:7.2f} GiB  {result.get('kkt_residual', '')}", flush=True)  # fmt: skip
        about = {"what": what, "classes": classes, "ridge": ridge, "contestant": contestant}
        found.append({**about, **result, "seconds": round(seconds, 4), "ratio": ratio})

    for classes, ridge in FITS:
        for contestant in ("ptd_ext", "batched LAPACK"):
            if contestant == "ptd_ext" or classes <= MOST_CLASSES_OF_PEER:
                result = in_own_process(fit, classes, ridge, contestant)
                row("fit_part_transitions", classes, contestant, result, ridge)
    for contestant in ("ptd_ext", "torch, sorting"):
        result = in_own_process(anchors_in_memory, samples, 10, contestant)
        row("find_anchors", 10, contestant, result, None)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "posteriors.npy"
        shape = (samples, file_classes)
        data = np.lib.format.open_memmap(file, "w+", np.float32, shape)
        for begin in range(0, samples, 20_000):
            count = min(20_000, samples - begin)
            data[begin : begin + count] = posteriors(count, file_classes, begin)
        del data
        result = in_own_process(anchors_from_file, str(file))
    row("find_anchors, memmap", file_classes, "ptd_ext", result, None)
    return [{"samples": samples, **each} if "anchors" in each["what"] else each for each in found]


def main() -> None:
    parser = parser_for(__doc__, "transition_fit_cpu.csv")
    parser.add_argument("--samples", type=int, default=1_000_000, help="samples of find_anchors")
    parser.add_argument("--file-classes", type=int, default=1000, help="classes of the memory map")
    parser.add_argument("--call", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.call:
        name, values = json.loads(arguments.call)
        print(json.dumps(globals()[name](*values)))
        return
    about = machine()
    sizes = {"parts": PARTS, "anchors": ANCHORS}
    found = rows(arguments.samples, arguments.file_classes)
    write_csv(arguments.out, [sizes | row | about for row in found])


if __name__ == "__main__":
    main()
