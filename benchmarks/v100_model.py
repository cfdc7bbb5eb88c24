"""A model, not a measurement, of the time that the hot CUDA kernels take on a V100.

    pip install -c constraints.txt . ".[test,cuda-check]"
    pip install --no-deps --target nvdisasm triton==3.6.0  # for its nvdisasm, which knows sm_70
    PYTHONPATH=nvdisasm python benchmarks/v100_model.py [--csv benchmarks/results/v100_model.csv]

Nothing here has run on a GPU. For each kernel, at N = 65,536, (C, R) = (10, 20) and N = 8,192,
(100, 20), in float32, the machine code that ptxas makes for sm_70 is run lane by lane for the
blocks that one of 80 multiprocessors would get (sass_program.py, sass_lanes.py, sass_warp.py), and
that multiprocessor is simulated cycle by cycle (sass_timing.py, sass_memory.py).

  * time_ratio is the modelled time over that of the least bytes that must move, by the header
    comments of csrc/cuda, at 900 GB/s. It runs from the first instruction to the last byte in DRAM;
    launching a kernel takes longer, and is left out.
  * issue, fma, alu, ... say which part of the time the schedulers, pipes, the memory unit, L2 and
    DRAM are taken; `stall` what warps wait for most, of all the time they spend waiting.
  * Blocks that group samples by label have as many as their labels happen to have, one block to a
    multiprocessor. modelled_us is of one with about as many as they have on average; slowest_us
    of that with most, of labels drawn at random: it ends last, and the launch with it. It has as
    much more of L2's and DRAM's bandwidth as it has more samples: others are done before.
  * Where a multiprocessor gets more blocks than are simulated in a minute, some are left out, and
    taken to go at the rate of those before the last started: `simulated` is the part that is not.

What the blocks compute is checked against ptd_ext.reference (v100_check.py). v100_plain.cuh, a
kernel as it is first written, is there to compare with.

Not modelled: instruction and constant caches, address translation, DRAM's pages and refresh, which
keep a GPU below its 900 GB/s, what multiprocessors do to each other in L2, and the launch.
Latencies are those of published microbenchmarks; a few are guesses, named as such.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests"))

import occupancy
from emulator.launches import Launch as Sizes
from measure import write_csv
from sass_memory import Caches
from sass_program import Program, assemble, find_nvdisasm
from sass_timing import Processor, Result
from sass_warp import Launch
from v100_cases import Arrays, Case, cases, pack
from v100_check import check, check_block, check_mean
from v100_moved import launch_sizes, moved

PROCESSORS, BANDWIDTH = 80, 900e9
MOST = 1_000_000  # instructions that are simulated
CARVEOUTS = (0, 8, 16, 32, 64, 96)  # KB of the 128 that shared memory can have


class Kernels:
    """Programs of the kernel files, each compiled to PTX once."""

    def __init__(self, nvdisasm: Path) -> None:
        self.nvdisasm = nvdisasm
        self.ptx: dict[Path, str] = {}

    def program(self, case: Case) -> Program:
        source = case.source
        if source not in self.ptx:
            self.ptx[source] = occupancy.compile_to_ptx(source)
        ptx, name = self.ptx[source], case.kernel.split("<")[0]
        for entry in re.findall(r"\.entry (\w+)\(", ptx):
            if name in entry and occupancy.readable(entry) == case.kernel:
                return assemble(ptx, entry, self.nvdisasm)
        sys.exit(f"{case.kernel} is not in {source}")


def simulate(
    case: Case, program: Program, sizes: Sizes, most: bool = False
) -> tuple[Result, float, float]:
    """What one multiprocessor does, which part of its blocks it did, and the time of all.

    `most`: that with most samples, where these are grouped by label."""
    arrays = Arrays(case)
    grid = (sizes.blocks // case.rows, case.rows, 1)
    launch = Launch(
        program, arrays.memory, pack(case.arguments(arrays)), grid, sizes.threads, sizes.shared
    )
    indices = [(b % grid[0], b // grid[0], 0) for b in range(0, sizes.blocks, PROCESSORS)]
    share = len(indices) / sizes.blocks
    if case.of_warp:
        if len(indices) > 1:
            raise ValueError(f"{case.kernel} has several blocks to a multiprocessor")
        indices = [arrays.block_with(most)]
        samples = arrays.samples_of(indices[0])
        share = len(samples) / case.n
    usage = program.usage
    resident = usage.active_warps(sizes.threads, sizes.shared) * 32 // -(-sizes.threads // 32 * 32)
    resident = min(resident, len(indices))
    # The last block of a grid adds up what all left, if it is among these.
    arrays.set_ticket(sizes.blocks - len(indices))
    if case.of_warp:  # run as they are timed: warps draw what they do
        blocks = [launch.start(indices[0])]
    else:
        blocks, issued = [], 0
        for index in indices:
            blocks.append(launch.run(index))
            issued += sum(len(warp.trace) for warp in blocks[-1])
            if issued > MOST and len(blocks) >= 2 * resident:
                break
    shared = resident * launch.shared_bytes
    carveout = next(size for size in CARVEOUTS if size * 1024 >= shared)
    caches = Caches(arrays.memory, (128 - carveout) * 1024, share)
    result = Processor(program, caches).run(iter(blocks), resident)
    if case.of_warp:
        check_block(arrays, samples)
    else:
        check(arrays)
    if case.title == "loss" and not most:
        check_mean(case, program)
    cycles = result.cycles
    if len(blocks) < len(indices):  # the others would have come while it was full
        left_out = (len(indices) / len(blocks) - 1) * result.issued
        cycles += left_out * result.filled / result.issued_filled
    return result, len(blocks) / len(indices), cycles / Caches.CLOCK * 1e6


COLUMNS = ("issue", "fma", "alu", "fp64", "special", "memory unit", "L2", "DRAM")


def row_of(case: Case, program: Program) -> tuple[dict[str, object], Result]:
    sizes = launch_sizes(case)
    bytes_moved = moved(case, sizes)
    result, simulated, microseconds = simulate(case, program, sizes)
    slowest = simulate(case, program, sizes, most=True)[2] if case.of_warp else microseconds
    least = bytes_moved.least + bytes_moved.once
    actual = bytes_moved.streams + bytes_moved.once
    floor = least / BANDWIDTH * 1e6
    stalls = Counter(result.stalls)
    return {
        "operator": case.title,
        "kernel": case.kernel,
        "N": case.n,
        "C": case.c,
        "R": case.r,
        "slack": int(case.slack),
        "least_mb": round(least / 1e6, 3),
        "bytes_ratio": round(actual / least, 3),
        "bytes_us": round(floor, 2),
        "modelled_us": round(microseconds, 2),
        "time_ratio": round(microseconds / floor, 2),
        "slowest_us": round(slowest, 2),
        "slowest_ratio": round(slowest / floor, 2),
        "simulated": round(simulated, 3),
        **{name.replace(" ", "_"): round(result.share(name), 3) for name in COLUMNS},
        "stall": ", ".join(
            f"{name} {cycles / stalls.total():.0%}" for name, cycles in stalls.most_common(3)
        ),
    }, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    parser.add_argument("--kernel", default="", help="only kernels with this in their name")
    parser.add_argument("--nvdisasm", type=Path, help="one that knows sm_70")
    parser.add_argument(
        "--hot",
        type=int,
        default=0,
        help="how many instructions to list that warps wait at most, after a timeline",
    )
    arguments = parser.parse_args()
    kernels, rows = Kernels(find_nvdisasm(arguments.nvdisasm)), []
    print("A model of a V100, not a measurement.\n")
    print(
        f"{'operator':<26}{'kernel':<52}{'C':>4}{'slack':>6}{'bytes µs':>10}{'model µs':>10}",
        end="",
    )
    print(f"{'ratio':>7}{'slowest':>9} {' '.join(f'{name:>5.5}' for name in COLUMNS)}  waits for")
    for case in cases():
        if arguments.kernel not in case.kernel:
            continue
        program = kernels.program(case)
        row, result = row_of(case, program)
        rows.append(row)
        shares = " ".join(f"{row[name.replace(' ', '_')]:>5.0%}" for name in COLUMNS)
        print(
            f"{row['operator']:<26}{row['kernel']:<52}{row['C']:>4}{row['slack']:>6}"
            f"{row['bytes_us']:>10}{row['modelled_us']:>10}{row['time_ratio']:>7}"
            f"{row['slowest_ratio']:>9} {shares}"
            f"  {row['stall']}"
            + (f" ({row['simulated']:.1%} simulated)" if row["simulated"] < 1 else ""),
            flush=True,
        )
        for name, line in zip(("issue", "DRAM"), result.timeline(), strict=True):
            if arguments.hot:
                print(f"    {name:<6}" + "".join(f"{share:>5.0%}" for share in line))
        for at, cycles in result.hot.most_common(arguments.hot):
            text = program.code[at].text
            print(f"    {cycles / result.hot.total():>6.1%}  {16 * at:#06x}  {text}")
    if arguments.csv:
        write_csv(arguments.csv, rows)


if __name__ == "__main__":
    main()
