"""Registers, shared memory and occupancy of every CUDA kernel on a V100, without a GPU.

    pip install -c constraints.txt ".[cuda-check]"
    python benchmarks/occupancy.py [--csv benchmarks/results/occupancy_sm70.csv]

NVRTC 12 compiles each csrc/cuda/*_kernels.cuh by itself for sm_70, and ptxas says what its kernels
need. Block sizes and dynamic shared memory come from the launchers: python_tests/emulator makes
all their launches, over classes, parts, types and slack, without running them. The table gives
the launch with the lowest occupancy of each kernel, and the first size (C, R) that makes it. A
spill, a stack frame, an occupancy below one half, or a launch of a kernel that NVRTC was not told
to compile is a failure.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CUDA = ROOT / "csrc" / "cuda"
sys.path.insert(0, str(ROOT / "python_tests"))

from emulator.all_launches import all_launches  # noqa: E402
from emulator.launches import kernel_name  # noqa: E402

ARCH = "70"

# One multiprocessor of a V100.
WARPS, BLOCKS, REGISTERS, SHARED = 64, 32, 65_536, 96 * 1024
# Registers are handed out 256 to a warp, to four warps at a time; shared memory in 256 bytes.
REGISTER_UNIT, WARP_UNIT, SHARED_UNIT = 256, 4, 256


@dataclass
class Usage:
    """What ptxas says of a kernel, and what follows for its worst launch."""

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

    def take_worst(self, launches: dict[tuple[int, int], tuple[int, int]]) -> None:
        def share(launch: tuple[int, int]) -> tuple[float, int]:
            return self.active_warps(*launch) / WARPS, -launch[1]

        worst = min(launches, key=share)
        self.block, self.dynamic_shared = worst
        self.classes, self.parts = launches[worst]
        self.occupancy = round(share(worst)[0], 3)

    def active_warps(self, block: int, dynamic_shared: int) -> int:
        warps = _round_up(block, 32) // 32
        register_warps = REGISTERS // _round_up(32 * max(self.registers, 1), REGISTER_UNIT)
        by_registers = register_warps // WARP_UNIT * WARP_UNIT // warps
        shared = _round_up(self.static_shared + dynamic_shared, SHARED_UNIT)
        by_shared = SHARED // shared if shared else BLOCKS
        return warps * min(by_registers, by_shared, WARPS // warps, BLOCKS)

    def faults(self) -> list[str]:
        found = []
        if self.block > self.bound:
            found.append(
                f"has {self.block} threads, of which __launch_bounds__ allows {self.bound}"
            )
        if self.spills:
            found.append(f"spills {self.spills} bytes")
        if self.stack:
            found.append(f"has a stack frame of {self.stack} bytes")
        if self.occupancy < 0.5:
            size = f"(C, R) = ({self.classes}, {self.parts})"
            found.append(f"reaches an occupancy of {self.occupancy:.0%} only, at {size}")
        return [f"{self.kernel} {fault}" for fault in found]


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def package_folder(name: str) -> Path:
    """Where a wheel of NVIDIA's put its files."""
    try:
        spec = importlib.util.find_spec(f"nvidia.{name}")
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f'nvidia.{name} is missing: pip install -c constraints.txt ".[cuda-check]"')
    return Path(spec.submodule_search_locations[0])


def compile_to_ptx(source: Path) -> str:
    """PTX of one kernel file for sm_70, by NVRTC."""
    nvrtc = ctypes.CDLL(str(next((package_folder("cuda_nvrtc") / "lib").glob("libnvrtc.so.1*"))))
    program = ctypes.c_void_p()
    text, name = source.read_bytes(), str(source).encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None)
    options = [f"--gpu-architecture=compute_{ARCH}", "--std=c++17", f"-I{CUDA}"]
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), array)

    def fetch(what: str) -> str:
        size = ctypes.c_size_t()
        nvrtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        nvrtc[f"nvrtcGet{what}"](program, buffer)
        return buffer.value.decode()

    log = fetch("ProgramLog")
    if failed:
        sys.exit(f"{source.name} does not compile under NVRTC for sm_{ARCH}:\n{log}")
    if log.strip():
        print(log, file=sys.stderr)
    return fetch("PTX")


def assemble(ptx: str, source: Path) -> str:
    """What ptxas prints of the kernels in `ptx`. It says so too when it fails for a spill."""
    ptxas = package_folder("cuda_nvcc") / "bin" / "ptxas"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.ptx"
        file.write_text(ptx)
        command = [ptxas, f"-arch=sm_{ARCH}", "-v", "--warn-on-spills", "--warning-as-error"]
        done = subprocess.run(
            [*command, file, "-o", file.with_suffix(".cubin")], capture_output=True, text=True
        )
    if done.returncode and "Registers are spilled" not in done.stderr:
        sys.exit(f"ptxas refuses {source.name}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def usages(source: Path) -> list[Usage]:
    """One entry for each kernel of a file."""
    ptx = compile_to_ptx(source)
    return read_report(assemble(ptx, source), ptx)


def read_report(report: str, ptx: str) -> list[Usage]:
    """What ptxas printed of the kernels of `ptx` that it compiled."""
    blocks = dict(re.findall(r"\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+)", ptx))
    found = []
    for part in report.split("Compiling entry function ")[1:]:
        mangled = part.split("'")[1]
        if mangled not in blocks:
            sys.exit(f"{mangled} declares no __launch_bounds__.")
        found.append(
            Usage(
                readable(mangled),
                bound=int(blocks[mangled]),
                registers=_number(r"Used (\d+) registers", part),
                static_shared=_number(r"(\d+) bytes smem", part),
                stack=_number(r"(\d+) bytes stack frame", part),
                spills=_number(r"(\d+) bytes spill stores", part)
                + _number(r"(\d+) bytes spill loads", part),
            )
        )
    return found


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


def readable(mangled: str) -> str:
    """name<arguments> of a kernel, as the emulator calls it."""
    tool = shutil.which("c++filt")
    if tool is None:
        sys.exit("c++filt is missing; it is part of GNU binutils.")
    return kernel_name(
        subprocess.run([tool, mangled], capture_output=True, text=True).stdout.strip()
    )


def table(rows: list[Usage]) -> str:
    """The rows as aligned text."""
    width = max(len(row.kernel) for row in rows)
    head = f"{'kernel':<{width}}  registers  static  stack  spills  block  dynamic"
    head += "    (C, R)  occupancy"
    lines = [
        f"{row.kernel:<{width}}  {row.registers:>9}  {row.static_shared:>6}  {row.stack:>5}  "
        f"{row.spills:>6}  {row.block:>5}  {row.dynamic_shared:>7}  "
        f"{f'{row.classes}, {row.parts}':>8}  {row.occupancy:>9.0%}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kernels", nargs="*", type=Path, help="kernel files; all of csrc/cuda")
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    sources = arguments.kernels or sorted(CUDA.glob("*_kernels.cuh"))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = [usage for found in pool.map(usages, map(Path.resolve, sources)) for usage in found]
    if not rows:
        sys.exit(f"{CUDA} holds no *_kernels.cuh.")
    launches = all_launches()
    faults = [f"{row.kernel} is launched by nothing" for row in rows if row.kernel not in launches]
    rows = [row for row in rows if row.kernel in launches]
    for row in rows:
        row.take_worst(launches[row.kernel])
    print(table(rows))
    if arguments.csv:
        arguments.csv.parent.mkdir(parents=True, exist_ok=True)
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(asdict(rows[0])), lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
    faults += [fault for row in rows for fault in row.faults()]
    if not arguments.kernels:
        compiled = {row.kernel for row in rows}
        faults += [
            f"{name} is launched, but not compiled here" for name in launches.keys() - compiled
        ]
    if faults:
        sys.exit("\n".join(["", *faults]))


if __name__ == "__main__":
    main()
