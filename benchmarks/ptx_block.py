"""The blocks of ptx_warp.py: lanes, registers, memories and clocks."""

from __future__ import annotations

import re

import numpy as np
from ptx_warp import (
    ALU,
    DRAM,
    DTYPES,
    GLOBAL,
    L1_HIT,
    L2_HIT,
    MUFU,
    PARAMS,
    SHARED,
    SHUFFLE,
    WAITS,
    WIDE,
    Instruction,
    Memory,
    Program,
    Work,
    wavefronts,
)

LANES = np.arange(32)
COMPARE = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
COMPARE |= {"eq": np.equal, "ne": np.not_equal, "neu": np.not_equal}
UNORDERED = {"leu": np.greater, "geu": np.less, "ltu": np.greater_equal, "gtu": np.less_equal}
BINARY = {"add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or}
BINARY |= {"xor": np.bitwise_xor, "min": np.fmin, "max": np.fmax, "mul": np.multiply}


class Warp:
    def __init__(self, block: Block, number: int):
        self.block, self.number = block, number
        self.registers: dict[str, np.ndarray] = {}
        self.ready: dict[str, float] = {}
        self.pc = np.zeros(32, np.int64)
        self.live = number * 32 + LANES < block.threads
        self.waiting = False
        self.clock = self.entered = self.latest = self.start = 0.0

    def read(self, text: str, kind: str) -> np.ndarray:
        dtype = DTYPES[kind]
        if text.startswith("-%"):
            return -self.read(text[1:], kind)
        if text.startswith("%"):
            name = text[1:]
            if "." in name or name == "laneid":
                return np.full(32, 0, "u4") + self.special(name).astype("u4")
            value = self.registers.get(name)
            if value is None:
                value = np.zeros(32, self.block.type_of(name))
            if value.dtype.itemsize == np.dtype(dtype).itemsize:
                return value.view(dtype)
            return value.astype(dtype)
        if text[:2] in ("0f", "0d"):
            bits = int(text[2:], 16)
            word = "u4" if text[1] == "f" else "u8"
            return np.full(32, bits, word).view(DTYPES["f32" if text[1] == "f" else "f64"])
        if re.fullmatch(r"-?(0x)?[0-9a-fA-F]+U?", text):
            mask = (1 << 8 * np.dtype(dtype).itemsize) - 1
            unsigned = np.array(int(text.rstrip("U"), 0) & mask, f"u{np.dtype(dtype).itemsize}")
            return np.full(32, unsigned).view(dtype)
        return np.full(32, self.block.program.symbols[text], "u8").astype(dtype)

    def special(self, name: str) -> np.ndarray:
        block = self.block
        if name == "tid.x":
            return self.number * 32 + LANES
        if name == "laneid":
            return LANES
        values = {"ntid.x": block.threads, "ctaid.x": block.index[0], "ctaid.y": block.index[1]}
        values |= {"ctaid.z": block.index[2], "nctaid.x": block.grid[0]}
        return np.full(32, values.get(name, 0))

    def write(self, name: str, value: np.ndarray, mask: np.ndarray, wait: float) -> None:
        name = name.lstrip("%")
        dtype = self.block.type_of(name)
        if value.dtype != dtype:
            same = value.dtype.itemsize == np.dtype(dtype).itemsize and value.dtype != bool
            value = value.view(dtype) if same else value.astype(dtype)
        if not mask.all() and name in self.registers:
            value = np.where(mask, value, self.registers[name])
        self.registers[name] = value
        self.ready[name] = self.start + wait

    def step(self) -> None:
        """One instruction of the lanes that are furthest behind."""
        block = self.block
        at = int(self.pc[self.live].min())
        lanes = self.live & (self.pc == at)
        code = block.program.code[at]
        mask = lanes
        if code.guard:
            holds = self.read("%" + code.guard, "pred")
            mask = lanes & (~holds if code.negated else holds)
        self.start = max([self.entered, *(self.ready.get(name, 0.0) for name in code.reads)])
        self.latest = max(self.latest, self.start)
        self.clock += code.slots
        block.work.issued += code.slots
        self.pc[lanes] += 1
        if code.ends or at + 1 in block.program.places:
            self.entered = self.clock = max(self.clock, self.latest)
        if code.kinds[0] == "bra":
            self.pc[mask] = block.program.labels[code.operands[0]]
        elif code.kinds[0] == "ret":
            self.live &= ~mask
        elif code.kinds[0] == "bar" and "warp" not in code.kinds:
            self.waiting = True
        elif mask.any():
            with np.errstate(all="ignore"):
                self.execute(code, mask)

    def execute(self, code: Instruction, mask: np.ndarray) -> None:
        op, kind, args = code.kinds[0], code.kinds[-1], code.operands
        pipes = self.block.work.pipes
        if op in ("ld", "st", "atom"):
            return self.access(code, mask)
        if op == "shfl":
            pipes["memory"] += 1
            value, other = self.read(args[1], "b32"), LANES ^ int(self.read(args[2], "b32")[0])
            return self.write(args[0].split("|")[0], value[other], mask, SHUFFLE)
        if op == "vote":
            bits = int(((self.read(args[1], "pred") & mask) << LANES).sum())
            return self.write(args[0], np.full(32, bits, "u4"), mask, WIDE)
        if op in ("membar", "bar"):
            return None
        wait = WAITS.get(code.name, WIDE if kind in ("f64", "s64", "u64", "b64") else ALU)
        if op == "setp":
            a, b = self.read(args[1], kind), self.read(args[2], kind)
            how = code.kinds[1]
            if how == "nan":
                result = np.isnan(a) | np.isnan(b)
            else:
                result = ~UNORDERED[how](a, b) if how in UNORDERED else COMPARE[how](a, b)
            pipes["fp32" if kind == "f32" else "int"] += code.slots / 2
            return self.write(args[0], result, mask, ALU)
        if op == "mov":
            return self.move(code, mask)
        pipe = "fp64" if "f64" in code.kinds else "fp32" if kind == "f32" else "int"
        if op in ("ex2", "div", "rcp", "popc") or (op == "cvt" and code.kinds[1] == "rn"):
            pipes["special"] += 2
            wait = max(wait, MUFU)
        pipes[pipe] += code.slots * (1 if pipe == "fp64" else 0.5)
        self.write(args[0], self.arithmetic(code, kind), mask, wait if code.slots else 0)

    def arithmetic(self, code: Instruction, kind: str) -> np.ndarray:
        op, args = code.kinds[0], code.operands
        if op == "cvt" or op == "cvta":
            to, source = (kind, kind) if op == "cvta" else (code.kinds[-2], kind)
            value = self.read(args[1], source).astype(DTYPES[to])
            return np.clip(value, 0, 1) if "sat" in code.kinds else value
        if op == "selp":
            return np.where(
                self.read(args[3], "pred"), self.read(args[1], kind), self.read(args[2], kind)
            )
        a = self.read(args[1], kind)
        if op in ("neg", "not", "abs"):
            return ~a if op == "not" else -a if op == "neg" else np.abs(a)
        if op == "popc":
            return np.array([bin(int(x)).count("1") for x in a], "u4")
        if op == "ex2":
            return np.exp2(a)
        if op == "rcp":
            return (1 / a).astype(a.dtype)
        b = self.read(args[2], "u32" if op in ("shl", "shr") else kind)
        if op in ("shl", "shr"):
            return (np.left_shift if op == "shl" else np.right_shift)(a, b.astype(a.dtype))
        if op in ("div", "rem"):
            if kind.startswith("f"):
                return a / b
            quotient = np.trunc(a / np.where(b == 0, 1, b)).astype(a.dtype)
            return quotient if op == "div" else a - quotient * b
        if op in ("fma", "mad"):
            c = self.read(args[3], kind)
            if op == "mad":
                return a * b + c
            exact = a.astype("f8") * b + c
            rounded = exact.astype(a.dtype)
            if "rm" in code.kinds:
                rounded = np.where(
                    rounded > exact, np.nextafter(rounded, np.float32(-np.inf)), rounded
                )
            return rounded.astype(a.dtype)
        if op == "bfi":
            start, length = int(self.read(args[3], "u32")[0]), int(self.read(args[4], "u32")[0])
            field = np.uint32(((1 << length) - 1) << start)
            return (b & ~field) | ((a << np.uint32(start)) & field)
        if op == "mul" and code.kinds[1] == "wide":
            wide = {"s32": "i8", "u32": "u8", "u16": "u4", "s16": "i4"}[kind]
            return a.astype(wide) * b.astype(wide)
        if op == "mul" and code.kinds[1] == "hi":
            return (a.astype("u8") * b.astype("u8") >> np.uint64(32)).astype("u4")
        if kind == "pred" and op == "xor":
            return a ^ b
        return BINARY[op](a, b)

    def move(self, code: Instruction, mask: np.ndarray) -> None:
        to, source = code.operands[0], code.operands[1]
        if to.startswith("{"):
            low, high = re.findall(r"%\w+", to)
            halves = self.read(source, "b64").copy().view("u4").reshape(32, 2)
            self.write(low, halves[:, 0].copy(), mask, 0)
            return self.write(high, halves[:, 1].copy(), mask, 0)
        if source.startswith("{"):
            low, high = re.findall(r"%\w+", source)
            both = np.stack([self.read(low, "b32"), self.read(high, "b32")], 1)
            return self.write(to, np.ascontiguousarray(both).view("u8")[:, 0], mask, 0)
        return self.write(to, self.read(source, code.kinds[-1]).copy(), mask, 0)

    def access(self, code: Instruction, mask: np.ndarray) -> None:
        block, kind = self.block, code.kinds[-1]
        dtype = np.dtype(DTYPES[kind])
        place = next(arg for arg in code.operands if arg.startswith("["))
        base, _, offset = place.strip("[]").partition("+")
        addresses = self.read(base, "u64").astype("i8") + int(offset or 0)
        count = 4 if "v4" in code.kinds else 2 if "v2" in code.kinds else 1
        width = count * dtype.itemsize
        parameter = addresses[mask][0] >= PARAMS
        is_global = not parameter and addresses[mask][0] >= GLOBAL
        wait = 0.0
        if is_global:
            wait = block.touch(addresses[mask] - GLOBAL, width, code.kinds[0] == "st")
        elif not parameter:
            passes = wavefronts(addresses[mask], width)
            block.work.pipes["memory"] += passes
            block.work.pipes["shared"] += passes
            wait = SHARED + passes
        memory = block.params if parameter else block.memory.bytes if is_global else block.shared
        start = PARAMS if parameter else GLOBAL if is_global else 0
        index = np.where(mask, addresses - start, addresses[mask][0] - start)
        index = index[:, None] + np.arange(width)
        if code.kinds[0] == "atom":
            return self.write(code.operands[0], np.zeros(32, "u4"), mask, wait)
        others = [arg for arg in code.operands if not arg.startswith("[")]
        names = re.findall(r"-?%\w+|0[fd][0-9A-F]+|-?\d+", others[0])
        if code.kinds[0] == "ld":
            values = memory[index].copy().view(dtype).reshape(32, count)
            for v, name in enumerate(names):
                self.write(name, values[:, v].copy(), mask, wait)
        else:
            values = np.stack([self.read(name, kind) for name in names], 1)
            data = np.ascontiguousarray(values).view(np.uint8).reshape(32, width)
            memory[index[mask]] = data[mask]


class Block:
    """Runs the blocks of a grid that are asked for, and adds up their work."""

    def __init__(self, program: Program, memory: Memory, params: bytes, threads: int, shared: int):
        self.program, self.memory, self.threads = program, memory, threads
        self.params = np.frombuffer(params, np.uint8)
        self.shared = np.zeros(program.dynamic + shared, np.uint8)
        self.work = Work()
        self.index, self.grid = (0, 0, 0), (1, 1, 1)
        self.near: set[int] = set()

    def type_of(self, name: str) -> str:
        return self.program.types[name.rstrip("0123456789")]

    def touch(self, offsets: np.ndarray, width: int, writes: bool) -> float:
        """Of global memory, by the active lanes of a warp; the cycles until it is there."""
        sectors = set((offsets // 32).tolist()) | set(((offsets + width - 1) // 32).tolist())
        lines = {sector // 4 for sector in sectors}
        self.work.pipes["memory"] += max(len(lines), len(sectors) / 2)
        if writes:
            return 0.0
        new = sectors - self.near
        self.near |= new
        return L1_HIT if not new else L2_HIT if new <= self.memory.cached else DRAM

    def run(self, index: tuple[int, int, int], grid: tuple[int, int, int]) -> None:
        self.index, self.grid = index, grid
        self.near = set()
        warps = [Warp(self, number) for number in range(-(-self.threads // 32))]
        while any(warp.live.any() for warp in warps):
            for warp in warps:
                while warp.live.any() and not warp.waiting:
                    warp.step()
            meet = max(warp.clock for warp in warps)
            for warp in warps:
                if warp.waiting:
                    warp.waiting, warp.clock, warp.entered = False, meet, meet
        self.work.latency = max(self.work.latency, max(warp.clock for warp in warps))
        self.work.blocks += 1
