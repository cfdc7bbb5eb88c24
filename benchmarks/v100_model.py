"""A model, not a measurement, of the time that the hot CUDA kernels take on a V100.

    pip install -c constraints.txt . ".[test,cuda-check]"
    python benchmarks/v100_model.py [--csv benchmarks/results/v100_model.csv]

Nothing here has run on a GPU. For each kernel, at N = 65,536, (C, R) = (10, 20) and N = 8,192,
(100, 20), in float32:

  * bytes: the least that must move, by the header comments of csrc/cuda, and what memory moves, as
    the emulator counts it for fewer samples (python_tests/traffic.py);
  * instructions and cycles of each pipe: from the kernel's PTX for sm_70, which ptx_warp.py and
    ptx_block.py run for a few blocks, with the bank conflicts of its real addresses;
  * the modelled time is the largest of: bytes at 900 GB/s, L2 traffic at 2.1 TB/s, instructions at
    one per scheduler and cycle, and the cycles of the busiest pipe (FP32 and INT 64 lanes a cycle,
    FP64 32, special functions 16, loads, stores and shuffles one pass), all on 80 multiprocessors
    at 1.53 GHz and perfectly overlapped; and the latency of a block times the number of waves of
    blocks;
  * "tail" adds the latency of one block, unless latency is the limit: as if nothing overlapped with
    the last block. fma_us is the time of the multiply-adds alone that no way around is known for.

ptxas may do better than the PTX reads, and a GPU worse: the times are rough.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests"))

import occupancy
from measure import write_csv
from ptx_block import Block
from ptx_warp import Program
from v100_cases import Arrays, Case, cases, pack
from v100_moved import launch_sizes, moved

PROCESSORS, CLOCK, BANDWIDTH, L2_BANDWIDTH = 80, 1.53e9, 900e9, 2.1e12
SAMPLED = 2  # blocks


class Kernels:
    """PTX and usage of the kernel files, each compiled once."""

    def __init__(self) -> None:
        self.ptx: dict[str, str] = {}
        self.usages: dict[str, occupancy.Usage] = {}

    def program(self, case: Case) -> Program:
        source = occupancy.CUDA / f"{case.file}.cuh"
        if case.file not in self.ptx:
            self.ptx[case.file] = occupancy.compile_to_ptx(source)
            self.usages |= {usage.kernel: usage for usage in occupancy.usages(source)}
        ptx = self.ptx[case.file]
        for entry in re.findall(r"\.entry (\w+)\(", ptx):
            if occupancy.readable(entry) == case.kernel:
                return Program(ptx, entry)
        sys.exit(f"{case.kernel} is not in {source}")


def row_of(case: Case, kernels: Kernels) -> dict[str, object]:
    program = kernels.program(case)
    launch = launch_sizes(case)
    bytes_moved = moved(case, launch)
    arrays = Arrays(case)
    block = Block(
        program, arrays.memory, pack(case.arguments(arrays)), launch.threads, launch.shared
    )
    columns = launch.blocks // case.rows
    for number in range(SAMPLED if case.c == 10 or "narrow" not in case.kernel else 1):
        block.run((columns * (2 * number + 1) // 5, 0, 0), (columns, case.rows, 1))
    work = block.work
    share = launch.blocks / work.blocks / PROCESSORS / CLOCK * 1e6  # from cycles to microseconds
    least = bytes_moved.least + bytes_moved.once
    times = {
        "memory": (bytes_moved.streams + bytes_moved.once) / BANDWIDTH * 1e6,
        "L2": bytes_moved.cached / L2_BANDWIDTH * 1e6,
        "issue": work.issued / 4 * share,
    }
    names = {"memory": "load/store", "special": "special functions"}
    times |= {names.get(p, p): cycles * share for p, cycles in work.pipes.items() if p != "shared"}
    usage = kernels.usages[case.kernel]
    resident = usage.active_warps(launch.threads, launch.shared) * 32 // launch.threads
    latency = work.latency / CLOCK * 1e6
    times["latency"] = latency * -(-launch.blocks // (resident * PROCESSORS))
    limit = max(times, key=times.get)
    floor = least / BANDWIDTH * 1e6
    tail = times[limit] + (latency if limit != "latency" else 0)
    return {
        "operator": case.title,
        "kernel": case.kernel,
        "N": case.n,
        "C": case.c,
        "R": case.r,
        "slack": int(case.slack),
        "least_mb": round(least / 1e6, 3),
        "moved_mb": round((bytes_moved.streams + bytes_moved.once) / 1e6, 3),
        "bytes_ratio": round((bytes_moved.streams + bytes_moved.once) / least, 3),
        "bytes_us": round(floor, 2),
        "fma_us": round(multiply_adds(case) / 32 / 2 / PROCESSORS / CLOCK * 1e6, 2),
        "modelled_us": round(times[limit], 2),
        "limit": limit,
        "time_ratio": round(times[limit] / floor, 2),
        "tail_ratio": round(tail / floor, 2),
        **{f"{name.replace(' ', '_')}_us": round(times.get(name, 0.0), 2) for name in COLUMNS},
    }


COLUMNS = (
    "memory",
    "L2",
    "issue",
    "fp32",
    "int",
    "fp64",
    "load/store",
    "special functions",
    "latency",
)


def multiply_adds(case: Case) -> int:
    """What no way around is known for."""
    matrix, column = case.n * case.r * case.c**2, case.n * case.r * case.c
    if "noisy" in case.kernel:
        return matrix * (2 if case.slack and "backward" not in case.kernel else 1)
    if "row_sums" in case.kernel or (case.slack and "transition_loss_pair" in case.kernel):
        return matrix
    return column


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    parser.add_argument("--kernel", default="", help="only kernels with this in their name")
    arguments = parser.parse_args()
    print("A model of a V100, not a measurement.\n")
    print(f"{'operator':<26}{'kernel':<52}{'C':>4} {'slack':>5}{'MB':>8}{'ratio':>7}", end="")
    print(f"{'bytes µs':>10}{'model µs':>10}{'ratio':>7}{'tail':>7}  limit")
    kernels, rows = Kernels(), []
    for case in cases():
        if arguments.kernel not in case.kernel:
            continue
        row = row_of(case, kernels)
        rows.append(row)
        print(
            f"{row['operator']:<26}{row['kernel']:<52}{row['C']:>4} {row['slack']:>5}"
            f"{row['least_mb']:>8}{row['bytes_ratio']:>7}{row['bytes_us']:>10}"
            f"{row['modelled_us']:>10}{row['time_ratio']:>7}{row['tail_ratio']:>7}  {row['limit']}",
            flush=True,
        )
    if arguments.csv:
        write_csv(arguments.csv, rows)


if __name__ == "__main__":
    main()
