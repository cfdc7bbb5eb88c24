"""Time the CUDA operators on this machine against eager torch and torch.compile.

    python benchmarks/bench_cuda.py [--csv FILE] [--operators ...] [--samples ...] [--classes ...]

For each operator, size (N, C, R) and pass, the script measures the median time of a call by CUDA
events with cold caches; the CSV also has the 20th and 80th percentile. It reports the minimum
number of bytes to move, and the achieved fraction of the bandwidth of a large copy in the same run.
Wall times of consecutive calls include the host, which dominates in small batches. Cases that do
not fit into GPU memory stay empty. --dry-run runs the script without a GPU; its times have no
meaning.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from cuda_operators import OPERATORS, backward_step, least_bytes
from measure import quantiles, write_csv

import ptd_ext
from ptd_ext.cli.selftest import call_times
from ptd_ext.ops import devices

SAMPLES = (128, 256, 1024, 8192, 65_536)
CLASSES = {10: 65_536, 100: 65_536, 1000: 1024}  # classes: largest N
PARTS = 20
PEERS = ("ptd_ext", "eager", "compile")


class Bench:
    """A device and its timers."""

    def __init__(self, dry_run: bool, repeats: int):
        self.device = "cpu" if dry_run else "cuda"
        self.repeats = 5 if dry_run else repeats
        self.backend = "eager" if dry_run else "inductor"
        numbers = 2**10 if dry_run else 2**27
        # Larger than any cache. While it is written, the following calls queue up, so that their
        # kernels run without gaps.
        self.flush = torch.zeros(numbers, device=self.device)
        copy = partial(torch.empty_like(self.flush).copy_, self.flush)
        median, _, _ = quantiles(call_times(copy, self.device, self.repeats))
        self.bandwidth = 2 * 4 * numbers / median / 1e3  # GB/s, read and written

    def times(self, step: Callable[[], object]) -> tuple[float, ...]:
        """Median, 20th and 80th percentile of the device time, and the wall time, all in µs."""
        device = quantiles(call_times(step, self.device, self.repeats, self.flush.zero_))
        self.wait()
        begin = time.perf_counter()
        for _ in range(self.repeats):
            step()
        self.wait()
        return *device, 1e6 * (time.perf_counter() - begin) / self.repeats

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def rows(self, name: str, size: tuple[int, int, int]) -> list[dict[str, object]]:
        """Rows for the forward pass and, if there is one, for both passes together."""
        operator, rows = OPERATORS[name], []
        inputs = operator.inputs(*size, self.device)
        calls = {"ptd_ext": operator.ours, "eager": operator.eager}
        calls["compile"] = torch.compile(operator.eager, dynamic=False, backend=self.backend)
        for what, least in least_bytes(inputs, operator.ours(*inputs)).items():
            row: dict[str, object] = {"operator": name, **dict(zip("NCR", size, strict=True))}
            row |= {"pass": what, "bytes": least}
            for peer, call in calls.items():
                try:
                    is_forward = what == "forward"
                    step = partial(call, *inputs) if is_forward else backward_step(call, inputs)
                    found = [round(value, 2) for value in self.times(step)]
                except torch.OutOfMemoryError:
                    found = [None] * 4
                columns = (f"{peer}_{column}" for column in ("us", "p20", "p80", "wall_us"))
                row |= zip(columns, found, strict=True)
            if row["ptd_ext_us"]:
                reached = 1e-3 * least / row["ptd_ext_us"] / self.bandwidth
                row["bandwidth_fraction"] = round(reached, 3)
            rows.append(row)
        torch.compiler.reset()
        return rows


def about(device: str) -> dict[str, object]:
    """Describe the GPU."""
    found: dict[str, object] = {"device": "cpu, dry run", "capability": "", "driver": ""}
    if device == "cuda":
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            answer = subprocess.run(query, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            answer = "unknown"
        found["device"] = torch.cuda.get_device_name()
        found["capability"] = "{}.{}".format(*torch.cuda.get_device_capability())
        found["driver"] = answer.split("\n")[0]
    found |= {"cuda": torch.version.cuda or "", "torch": torch.__version__}
    return found | {"ptd_ext": ptd_ext.__version__, "python": platform.python_version()}


def line(row: dict[str, object]) -> str:
    size = f"({row['N']}, {row['C']}, {row['R']})"
    text = f"{row['operator']:<22}{size:<18}{row['pass']:<18}{row['bytes'] / 1e6:>10.3f}"
    keys = [f"{peer}_us" for peer in PEERS] + [f"{peer}_wall_us" for peer in PEERS]
    text += "".join("         –" if row[key] is None else f"{row[key]:>10.1f}" for key in keys)
    return text + f"{row.get('bandwidth_fraction', 0):>7.0%}"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--csv", type=Path, help="CSV file to write")
    parser.add_argument("--operators", nargs="+", choices=OPERATORS, default=list(OPERATORS))
    parser.add_argument("--samples", nargs="+", type=int, default=SAMPLES)
    parser.add_argument("--classes", nargs="+", type=int, choices=CLASSES, default=list(CLASSES))
    parser.add_argument(
        "--repeats", type=int, default=50, help="timed calls per step (default: 50)"
    )
    parser.add_argument("--dry-run", action="store_true", help="run tiny sizes on the CPU")
    arguments = parser.parse_args(argv)
    if not arguments.dry_run:
        if not torch.cuda.is_available():
            sys.exit("No GPU was found. --dry-run tries this script on the CPU.")
        if sentence := devices.unsupported(torch.cuda.current_device()):
            sys.exit(sentence)
    sizes = [(n, c, PARTS) for c in arguments.classes for n in arguments.samples if n <= CLASSES[c]]
    bench = Bench(arguments.dry_run, arguments.repeats)
    facts = about(bench.device) | {"copy_GB_per_s": round(bench.bandwidth, 1)}
    print(", ".join(f"{key} {value}" for key, value in facts.items() if value), end="\n\n")
    head = f"{'operator':<22}{'(N, C, R)':<18}{'pass':<18}{'MB':>10}"
    print(head + "".join(f"{peer:>10}" for peer in PEERS) + "   and their wall times, µs   of copy")
    rows = []
    for size in [(5, 3, 2)] if arguments.dry_run else sizes:
        for name in arguments.operators:
            if name == "simplex_weights" and size[1] > min(arguments.classes):
                continue  # independent of C
            try:
                found = bench.rows(name, size)
            except torch.OutOfMemoryError:
                print(f"{name} at {size} does not fit into the GPU's memory.", flush=True)
                continue
            print(*map(line, found), sep="\n", flush=True)
            rows += [row | facts for row in found]
    if arguments.csv:
        write_csv(arguments.csv, rows)


if __name__ == "__main__":
    main()
