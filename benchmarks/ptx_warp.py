"""Runs blocks of a kernel's PTX warp by warp, and counts what each pipe of a multiprocessor does.

The lanes of a warp that are at the lowest place in the program go on together, so that branches
meet again. A warp's clock says when its next basic block can start, from the latencies of what it
waits for and, within one, in the best order there is: how long a block takes that has a
multiprocessor to itself. All is a property of the PTX; v100_model.py makes times of it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

PARAMS, GLOBAL = 1 << 40, 1 << 32  # where these memories start; shared memory starts at 0
# Cycles until a result can be used (Jia et al., "Dissecting the NVIDIA Volta GPU architecture via
# microbenchmarking", 2018, rounded); of global loads by what had the sector.
ALU, SHARED, SHUFFLE, MUFU, WIDE = 4, 24, 24, 16, 8
L1_HIT, L2_HIT, DRAM = 32, 220, 500

# Instructions of the machine for one of PTX, where it is not one. Operands from constant memory and
# copies cost nothing; 64-bit integers take two; quotients are short programs.
SLOTS = {"mov": 0, "cvta": 0, "ld.param": 0, "neg.f32": 0, "not.pred": 0, "mov.pred": 0}
SLOTS |= {"div.rn.f32": 10, "rcp.rn.f32": 7, "div.rn.f64": 30, "div.s32": 18, "div.u32": 16}
SLOTS |= {"rem.s32": 20, "rem.u32": 18, "mul.lo.s64": 4, "and.b64": 2, "or.b64": 2, "shl.b64": 2}
SLOTS |= {"shr.u64": 2, "add.s64": 2, "sub.s64": 2, "setp.s64": 2, "selp.b64": 2, "cvt.s64": 1}
SLOTS |= {"max.s64": 4, "min.s64": 4, "cvt.u64": 0, "cvt.u32.u64": 0}
DTYPES = {"f32": "f4", "f64": "f8", "b32": "u4", "u32": "u4", "s32": "i4", "b64": "u8", "u64": "u8"}
DTYPES |= {"s64": "i8", "b16": "u2", "u16": "u2", "s16": "i2", "u8": "u1", "b8": "u1", "pred": "?"}
WAITS = {"div.rn.f32": 40, "rcp.rn.f32": 30, "div.rn.f64": 120, "div.s32": 80, "rem.s32": 90}


@dataclass
class Work:
    """Of some blocks: instructions issued, and cycles of each pipe of one multiprocessor."""

    issued: float = 0.0
    pipes: Counter = field(default_factory=Counter)
    latency: float = 0.0  # cycles, of the longest block
    blocks: int = 0


@dataclass
class Instruction:
    guard: str  # a predicate's register, or nothing
    negated: bool
    name: str
    kinds: list[str]
    operands: list[str]
    slots: float
    reads: list[str]  # registers
    ends: bool  # a basic block


class Program:
    """One entry of a PTX text."""

    def __init__(self, ptx: str, entry: str):
        self.symbols: dict[str, int] = {}
        at = 0
        body = re.search(rf"\.entry {re.escape(entry)}\((.*?)\)(.*?)\n}}\n", ptx, re.S)
        assert body, entry
        for align, kind, name, size in re.findall(
            r"\.shared \.align (\d+) \.(\w+) (\w+)(?:\[(\d+)\])?;", ptx
        ):
            if name not in body[2]:
                continue
            at = -(-at // int(align)) * int(align)
            self.symbols[name] = at
            at += int(size or 1) * np.dtype(DTYPES[kind]).itemsize
        self.dynamic = -(-at // 16) * 16
        for name in re.findall(r"\.extern \.shared \.align \d+ \.b8 (\w+)\[\]", ptx):
            self.symbols[name] = self.dynamic
        place = PARAMS
        for align, kind, name, size in re.findall(
            r"\.param (?:\.align (\d+) )?\.(\w+) (\w+)(?:\[(\d+)\])?", body[1]
        ):
            width = int(size) if size else np.dtype(DTYPES[kind]).itemsize
            unit = int(align) if align else width
            place = -(-place // unit) * unit
            self.symbols[name] = place
            place += width
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        registers = re.findall(r"\.reg \.(\w+)\s+%(\w+?)<", body[2])
        self.types = {prefix: DTYPES[kind] for kind, prefix in registers}
        for line in map(str.strip, body[2].splitlines()):
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.code)
            elif line.endswith(";") and not line.startswith("."):
                self.code.append(decode(line))
        self.places = set(self.labels.values())


def decode(line: str) -> Instruction:
    guard, negated, text = "", False, line.rstrip(";")
    if found := re.match(r"@(!?)%(\w+)\s+(.*)", text):
        negated, guard, text = bool(found[1]), found[2], found[3]
    name, _, rest = text.partition("\t") if "\t" in text else text.partition(" ")
    operands = [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)]
    name = name.strip()
    kinds = name.split(".")
    keys = (name, f"{kinds[0]}.{kinds[-1]}", ".".join(kinds[:2]), kinds[0])
    slots = next((SLOTS[key] for key in keys if key in SLOTS), 1)
    given = operands if kinds[0] in ("st", "bra", "bar") else operands[1:]
    reads = re.findall(r"%(\w+)", " ".join(given)) + ([guard] if guard else [])
    ends = kinds[0] in ("bra", "ret", "bar", "membar")
    return Instruction(guard, negated, name, kinds, operands, slots, reads, ends)


class Memory:
    """Arrays, laid out one after another, and which sectors are in which cache."""

    def __init__(self) -> None:
        self.bytes = np.zeros(0, np.uint8)
        self.cached: set[int] = set()  # sectors that stay in L2: the parts

    def add(self, array: np.ndarray, cached: bool = False) -> int:
        start = -(-len(self.bytes) // 256) * 256
        data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.bytes = np.concatenate([self.bytes, np.zeros(start - len(self.bytes), np.uint8), data])
        if cached:
            self.cached |= set(range(start // 32, (start + len(data)) // 32 + 1))
        return GLOBAL + start


def wavefronts(addresses: np.ndarray, width: int) -> int:
    """Passes of shared memory: each serves one word of every bank, to any number of lanes."""
    words = addresses[:, None] // 4 + np.arange(max(width // 4, 1))
    distinct = np.unique(words)
    if len(distinct) <= 32 and np.bincount(distinct % 32).max() == 1:
        return 1
    total, lanes = 0, 128 // max(width, 4)
    for start in range(0, len(words), lanes):
        total += int(np.bincount(np.unique(words[start : start + lanes]) % 32).max())
    return total
