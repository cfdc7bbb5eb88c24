"""Profile the CUDA kernels of one operator with Nsight Compute.

    python benchmarks/profile_cuda.py forward_loss --size 1024 10 20 [--kernel REGEX] [--backward]

The script runs one call of the operator under `ncu`, after a warm-up. For each kernel it prints
the time, the bytes of DRAM, the share of the throughput of DRAM and multiprocessors, the achieved
occupancy, and registers. With --report FILE it saves all sections for the user interface of ncu
instead.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
from functools import partial

import torch
from cuda_operators import OPERATORS, backward_step, leaves

METRICS = {
    "time, ns": "gpu__time_duration.sum",
    "DRAM read, bytes": "dram__bytes_read.sum",
    "DRAM written, bytes": "dram__bytes_write.sum",
    "DRAM throughput, %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "SM throughput, %": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy, %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
}
PERMISSION = "ERR_NVGPUCTRPERM"


def run_operator(arguments: argparse.Namespace) -> None:
    """Run in ncu: a few calls to warm up, then the profiled call."""
    operator = OPERATORS[arguments.operator]
    inputs = operator.inputs(*arguments.size, "cuda")
    step = partial(operator.ours, *inputs)
    if arguments.backward:
        step = backward_step(operator.ours, inputs)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    step()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def command(ncu: str, arguments: argparse.Namespace) -> list[str]:
    words = [ncu, "--profile-from-start", "off", "--kernel-name-base", "demangled"]
    words += ["--kernel-name", f"regex:{arguments.kernel}"]
    if arguments.report:
        words += ["--set", "full", "--force-overwrite", "--export", arguments.report]
    else:
        words += ["--csv", "--page", "raw", "--print-units", "base"]
        words += ["--metrics", ",".join(METRICS.values())]
    words += [sys.executable, __file__, arguments.operator, "--inside-ncu"]
    words += ["--size", *map(str, arguments.size)]
    return words + ["--backward"] * arguments.backward


def kernels(output: str) -> list[dict[str, str]]:
    """Rows of the table of ncu, which follows other output."""
    lines = output.splitlines()
    start = next((i for i, text in enumerate(lines) if text.startswith('"ID"')), len(lines))
    return list(csv.DictReader(lines[start:]))[1:]  # without the units


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("operator", choices=OPERATORS)
    parser.add_argument("--size", nargs=3, type=int, default=(1024, 10, 20), metavar=tuple("NCR"))
    parser.add_argument("--kernel", default="ptd::", help="regular expression of kernel names")
    parser.add_argument("--backward", action="store_true", help="profile the backward pass too")
    parser.add_argument("--report", help="report file of ncu to write instead of the table")
    parser.add_argument("--inside-ncu", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.backward and not leaves(OPERATORS[arguments.operator].inputs(1, 2, 1, "cpu")):
        parser.error(f"{arguments.operator} has no backward pass.")
    if arguments.inside_ncu:
        return run_operator(arguments)
    ncu = shutil.which("ncu")
    if ncu is None:
        sys.exit("ncu was not found: install NVIDIA Nsight Compute and put ncu on PATH.")
    if not torch.cuda.is_available():
        sys.exit("No GPU was found, and a profile needs one.")
    done = subprocess.run(command(ncu, arguments), capture_output=True, text=True)
    if PERMISSION in done.stdout:
        sys.exit(f"ncu may not read the GPU's counters ({PERMISSION}): run this as root.")
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}")
    found = [] if arguments.report else kernels(done.stdout)
    if not found and not arguments.report:
        sys.exit(f"No kernel whose name matches {arguments.kernel!r} ran.")
    for row in found:
        print(row["Kernel Name"], f"grid {row['Grid Size']}, block {row['Block Size']}", sep="\n  ")
        print(*(f"  {label:<20}{row[name]:>14}" for label, name in METRICS.items()), sep="\n")


if __name__ == "__main__":
    main()
