"""Registers, shared memory and occupancy of every CUDA kernel on a V100, without a GPU.

    pip install -c constraints.txt ".[cuda-check]"
    python python_tests/occupancy/run.py [--csv FILE] [--only REGEX]

The launchers themselves determine which kernels they launch: python_tests/emulator makes all their
launches, over classes, parts, types and slack, without running them. NVRTC 12 compiles just these
instantiations for sm_70, and ptxas reports what they need. The table has the launch with the lowest
occupancy of each, and the first size (C, R) that makes it. A spill, a stack frame, an occupancy
below one half, a kernel that nothing launches, or too many of them, is a failure.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from emulator.all_launches import all_launches

from occupancy.nvrtc import ARCH, CUDA, assemble, choose_file, compile_to_ptx, defined_kernels

MAX_KERNELS, MAX_INSTANTIATIONS = 30, 100

# One multiprocessor of a V100, which is what ARCH stands for.
WARPS, BLOCKS, REGISTERS, SHARED = 64, 32, 65_536, 96 * 1024
# Registers are allocated 256 to a warp, to four warps at a time; shared memory in 256 bytes.
REGISTER_UNIT, WARP_UNIT, SHARED_UNIT = 256, 4, 256

Launches = dict[tuple[int, int], tuple[int, int]]  # (threads, dynamic shared memory): (C, R)


@dataclass
class Usage:
    """The resources that ptxas reports for a kernel, and the occupancy of its worst launch."""

    kernel: str
    bound: int  # threads, of __launch_bounds__
    registers: int
    static_shared: int
    stack: int
    spills: int
    block: int = 0  # threads
    dynamic_shared: int = 0
    classes: int = 0
    parts: int = 0
    occupancy: float = 0.0

    def take_worst(self, launches: Launches) -> None:
        worst = min(launches, key=lambda launch: (self.active_warps(*launch), -launch[1]))
        self.block, self.dynamic_shared = worst
        self.classes, self.parts = launches[worst]
        self.occupancy = round(self.active_warps(*worst) / WARPS, 3)

    def active_warps(self, block: int, dynamic_shared: int) -> int:
        warps = _round_up(block, 32) // 32
        register_warps = REGISTERS // _round_up(32 * max(self.registers, 1), REGISTER_UNIT)
        by_registers = register_warps // WARP_UNIT * WARP_UNIT // warps
        shared = _round_up(self.static_shared + dynamic_shared, SHARED_UNIT)
        by_shared = SHARED // shared if shared else BLOCKS
        return warps * min(by_registers, by_shared, WARPS // warps, BLOCKS)

    def faults(self) -> list[str]:
        size = f"(C, R) = ({self.classes}, {self.parts})"
        bound = f"{self.block} threads, of which __launch_bounds__ allows {self.bound}"
        found = {
            f"has {bound}": self.block > self.bound,
            f"spills {self.spills} bytes": self.spills,
            f"has a stack frame of {self.stack} bytes": self.stack,
            f"reaches an occupancy of {self.occupancy:.0%} only, at {size}": self.occupancy < 0.5,
        }
        return [f"{self.kernel} {fault}" for fault, is_there in found.items() if is_there]


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def usages(source: Path, kernels: list[str]) -> list[Usage]:
    """The report of ptxas on kernels of one file."""
    ptx, names = compile_to_ptx(source, kernels)
    bounds = dict(re.findall(r"\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+)", ptx))
    found = []
    for part in assemble(ptx, source).split("Compiling entry function ")[1:]:
        mangled = part.split("'")[1]
        if mangled not in names:
            continue
        if mangled not in bounds:
            sys.exit(f"{names[mangled]} declares no __launch_bounds__.")
        wanted = ("Used (\\d+) registers", "(\\d+) bytes smem", "(\\d+) bytes stack frame")
        numbers = (
            sum(map(int, re.findall(pattern, part)))
            for pattern in (*wanted, "(\\d+) bytes spill (?:stores|loads)")
        )
        found.append(Usage(names[mangled], int(bounds[mangled]), *numbers))
    return found


def table(rows: list[Usage]) -> str:
    """The rows as aligned text."""
    width = max(len(row.kernel) for row in rows)
    head = f"{'kernel':<{width}}  registers  static  stack  spills  block  dynamic"
    lines = [
        f"{row.kernel:<{width}}  {row.registers:>9}  {row.static_shared:>6}  {row.stack:>5}  "
        f"{row.spills:>6}  {row.block:>5}  {row.dynamic_shared:>7}  "
        f"{f'{row.classes}, {row.parts}':>8}  {row.occupancy:>9.0%}"
        for row in rows
    ]
    return "\n".join([head + "    (C, R)  occupancy", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    parser.add_argument("--only", default="", help="regular expression of kernel names")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # for small products, whose threads would wait for each other
    launches = {k: v for k, v in all_launches().items() if re.search(arguments.only, k)}
    sources = {p: p.read_text() for p in sorted(CUDA.rglob("*.cu*")) if p.suffix in (".cu", ".cuh")}
    defined = {name for text in sources.values() for name in defined_kernels(text)}
    by_file: dict[Path | None, list[str]] = {}
    for kernel in sorted(launches):
        by_file.setdefault(choose_file(kernel, sources), []).append(kernel)
    faults = [f"{name} is launched, but no file defines it" for name in by_file.pop(None, [])]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = [row for found in pool.map(usages, by_file, by_file.values()) for row in found]
    for row in rows:
        row.take_worst(launches[row.kernel])
        faults += row.faults()
    print(table(rows))
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [f.name for f in fields(Usage)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(asdict, rows))
    print(f"\n{len(defined)} kernels, {len(launches)} instantiations, for sm_{ARCH}")
    if not arguments.only:
        launched = {name.split("<")[0] for name in launches}
        faults += [f"{name} is launched by nothing" for name in sorted(defined - launched)]
    for what, count, most in (
        ("kernels", len(defined), MAX_KERNELS),
        ("instantiations", len(launches), MAX_INSTANTIATIONS),
    ):
        if count > most:
            faults.append(f"{count} {what} are more than {most}")
    if faults:
        sys.exit("\n".join(["", *faults]))


if __name__ == "__main__":
    main()
