"""The machine code of one kernel for sm_70: from NVRTC and ptxas, read back by nvdisasm.

Of each instruction the text says what it does. When it may issue stands in the upper bits of its
128, where ptxas puts what the hardware does not check for itself: cycles to wait, and which of six
counters ("barriers" below) it waits for, and raises until its result or its operands are through.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import occupancy

NO_BARRIER = 7
FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?(e[+-]?\d+)?|INF|QNAN|SNAN)")


@dataclass
class Operand:
    """`kind` is R, P, B, const, imm, float, mem, label or text."""

    kind: str
    value: int = 0  # a register's number, an immediate, an offset, or the place of a label
    base: int = 255  # a register that is added: [R2+0x10], c[0x0][R2+0x10]
    bank: int = 0
    scale: int = 1  # of that register: [R2.X4+0x10]
    negated: bool = False
    inverted: bool = False  # ~R2
    absolute: bool = False
    reused: bool = False
    text: str = ""


@dataclass
class Instruction:
    at: int  # number in the program
    text: str
    guard: int  # a predicate, 7 for none
    guard_negated: bool
    name: str
    flags: tuple[str, ...]
    operands: list[Operand]
    stall: int
    yields: bool
    write_barrier: int
    read_barrier: int
    waits: tuple[int, ...]
    conflict: int = 0  # cycles, of registers in one bank


@dataclass
class Program:
    code: list[Instruction] = field(default_factory=list)
    constants: bytes = b""  # bank 2
    usage: occupancy.Usage | None = None


def find_nvdisasm(given: Path | None) -> Path:
    """One that still knows sm_70: the wheel of triton 3 brings it, new CUDA toolkits do not."""
    if given is not None:
        return given
    spec = importlib.util.find_spec("triton")
    if spec is not None and spec.submodule_search_locations:
        tool = Path(spec.submodule_search_locations[0], "backends", "nvidia", "bin", "nvdisasm")
        if tool.exists():
            return tool
    found = shutil.which("nvdisasm")
    if found is None:
        sys.exit(
            "nvdisasm is missing: pip install triton==3.6.0, or put one of CUDA 12 on PATH, "
            "or name one with --nvdisasm."
        )
    return Path(found)


def assemble(ptx: str, entry: str, nvdisasm: Path) -> Program:
    """The program of one entry of a PTX text."""
    ptxas = occupancy.package_folder("cuda_nvcc") / "bin" / "ptxas"
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        report = _run(ptxas, f"-arch=sm_{occupancy.ARCH}", "-v", "-e", entry, source, "-o", cubin)
        text = _run(nvdisasm, "-hex", "-c", cubin)
        image = cubin.read_bytes()
    program = Program(read(text), section(image, f".nv.constant2.{entry}"))
    program.usage = occupancy.read_report(report, ptx)[0]
    return program


def _run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{Path(str(command[0])).name} fails:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def section(image: bytes, name: str) -> bytes:
    """The bytes of an ELF file's section; none if it has no such section."""
    start = struct.unpack_from("<Q", image, 40)[0]
    count, names = struct.unpack_from("<HH", image, 60)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, start + 64 * i) for i in range(count)]
    text = headers[names][4]
    for header in headers:
        at = text + header[0]
        if image[at : image.index(b"\0", at)].decode() == name:
            return image[header[4] : header[4] + header[5]]
    return b""


def read(text: str) -> list[Instruction]:
    """Instructions of a disassembly, whose encodings follow them, half on the next line."""
    labels: dict[str, int] = {}
    found: list[tuple[str, int, int]] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if label := re.match(r"([.$\w]+):\s*$", line):
            labels[label[1]] = len(found)
        elif match := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;\s+/\* 0x(\w+) \*/", line):
            high = re.search(r"/\* 0x(\w+) \*/", lines[number + 1])
            found.append((match[1], int(match[2], 16), int(high[1], 16)))
    code = [decode(at, *parts, labels) for at, parts in enumerate(found)]
    for before, instruction in pairwise([None, *code]):
        instruction.conflict = bank_conflict(before, instruction)
    return code


def decode(at: int, text: str, low: int, high: int, labels: dict[str, int]) -> Instruction:
    guard, negated, rest = 7, False, text
    if match := re.match(r"@(!?)P([0-6T])\s+(.*)", text):
        negated, rest = bool(match[1]), match[3]
        guard = 7 if match[2] == "T" else int(match[2])
    name, _, operands = rest.partition(" ")
    name, *flags = name.split(".")
    immediate = low >> 32
    parts = re.findall(r"`\([^)]*\)|[^,\s`]+(?:\s*\([^)]*\))?", operands)
    control = high >> 41  # of 128 bits, those from 105 on
    wait = control >> 11 & 63
    return Instruction(
        at,
        text,
        guard,
        negated,
        name,
        tuple(flags),
        [operand(part, immediate, labels) for part in parts],
        stall=control & 15,
        yields=not control >> 4 & 1,
        write_barrier=control >> 5 & 7,
        read_barrier=control >> 8 & 7,
        waits=tuple(barrier for barrier in range(6) if wait >> barrier & 1),
    )


def operand(text: str, immediate: int, labels: dict[str, int]) -> Operand:
    if text.startswith("`("):
        return Operand("label", labels[text[2:-1]], text=text)
    reused, body = ".reuse" in text, text.replace(".reuse", "")
    negated, inverted = body[0] in "-!", body[0] == "~"
    stripped = body.lstrip("-!~")
    absolute = stripped.startswith("|")
    stripped = stripped.strip("|")
    given = {"negated": negated, "inverted": inverted, "absolute": absolute, "reused": reused}
    if match := re.fullmatch(r"([RPB])(\d+|Z|T)", stripped):
        none = {"Z": 255, "T": 7}
        number = none[match[2]] if match[2] in none else int(match[2])
        return Operand(match[1], number, text=text, **given)
    if match := re.fullmatch(r"c\[(0x\w+)\]\[(?:R(\w+))?\+?(-?0x\w+)?\]", stripped):
        offset = int(match[3] or "0", 0)
        return Operand("const", offset, base_of(match[2]), int(match[1], 0), text=text, **given)
    if match := re.fullmatch(r"\[(?:R(\d+|Z)(?:\.X(\d+))?)?\+?(-?0x\w+)?\]", stripped):
        scale, offset = int(match[2] or "1"), int(match[3] or "0", 0)
        return Operand("mem", offset, base_of(match[1]), scale=scale, text=text)
    if re.fullmatch(r"-?0x[0-9a-f]+", body):
        return Operand("imm", int(body, 0) & 0xFFFFFFFF, text=text)
    if FLOAT.fullmatch(body):
        return Operand("float", immediate, text=text)  # the text is rounded
    return Operand("text", text=text)


def base_of(text: str | None) -> int:
    return 255 if text in (None, "Z") else int(text)


def bank_conflict(before: Instruction | None, instruction: Instruction) -> int:
    """One more cycle if three operands lie in one of the two banks of registers.

    An operand that the instruction before it marked for reuse, in the same place, is not read.
    """
    sources = instruction.operands[1:]
    held = before.operands[1:] if before else []
    read: list[int] = []
    for place, source in enumerate(sources):
        kept = place < len(held) and held[place].reused and held[place].value == source.value
        if source.kind == "R" and source.value != 255 and not kept:
            read.append(source.value)
    parities = [number % 2 for number in set(read)]
    return int(max(parities.count(0), parities.count(1)) > 2)
