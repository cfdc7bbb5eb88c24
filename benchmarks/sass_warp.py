"""Runs warps of a kernel's machine code, and keeps what they did, for sass_timing.py to time.

What an atomic returns depends on when others get to theirs, and a barrier waits for all: a warp
stops there until it is told to go on, by sass_timing.py when its time has come. Launch.run has no
notion of time.

Lanes that part at a branch go on one group after the other until they meet: at the BSYNC of the
BSSY that they passed together, at a WARPSYNC, or at the end. A trace lists the instructions that a
warp issued, by number; where memory was accessed, with what of it.
"""

from __future__ import annotations

import numpy as np
from sass_access import FROM_ELSEWHERE
from sass_arithmetic import compile_arithmetic
from sass_lanes import LANES, Operands, mask_of, unknown
from sass_memory import Memory
from sass_pipes import is_prefetch
from sass_program import Instruction, Program

ALL = 0xFFFFFFFF
CONTROL = {"BRA", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "YIELD", "CALL", "RET", "EXIT", "BAR"}
ATOMICS = {"ATOMS", "ATOMG", "RED"}
# Nothing to do for lanes that run one after another; BMOV saves what a warp keeps by lane here.
IDLE = {"NOP", "BMOV", "MEMBAR", "ERRBAR", "CCTL", "DEPBAR"}
MASKS: dict[int, np.ndarray] = {}


def lanes_of(mask: int) -> np.ndarray:
    found = MASKS.get(mask)
    if found is None:
        found = MASKS[mask] = (np.uint32(mask) >> LANES & 1).astype(bool)
    return found


class Launch:
    """A program with the constants of a launch, ready to run blocks."""

    def __init__(
        self,
        program: Program,
        memory: Memory,
        params: bytes,
        grid: tuple,
        threads: int,
        shared: int,
    ):
        self.program, self.memory, self.grid, self.threads = program, memory, grid, threads
        self.shared_bytes = program.usage.static_shared + shared
        bank = bytearray(0x160) + params + bytes(16)
        bank[0:12] = np.array([threads, 1, 1], np.uint32).tobytes()
        bank[12:24] = np.array(grid, np.uint32).tobytes()
        operands = Operands({0: bytes(bank), 2: program.constants + bytes(8)})
        self.steps = [compile_step(code, operands) for code in program.code]

    def start(self, index: tuple[int, int, int]) -> list[Warp]:
        """The warps of a block, at their first instruction."""
        shared = np.zeros(-(-self.shared_bytes // 16) * 16, np.uint8)
        return [Warp(self, shared, index, n) for n in range(-(-self.threads // 32))]

    def run(self, index: tuple[int, int, int]) -> list[Warp]:
        """The warps of a block, at their end."""
        warps = self.start(index)
        going = warps
        while going:
            going = [warp for warp in going if warp.to_barrier()]
        return warps


class Warp:
    def __init__(self, launch: Launch, shared: np.ndarray, index: tuple, number: int):
        self.launch, self.shared, self.index, self.number = launch, shared, index, number
        self.memory = launch.memory
        self.r = np.zeros((260, 32), np.uint32)
        self.f = self.r.view(np.float32)
        self.p = np.zeros((9, 32), bool)
        self.p[7] = True
        count = min(32, launch.threads - 32 * number)
        self.live = self.active = (1 << count) - 1
        self.at = 0
        self.ready: list[tuple[int, int]] = []  # (place, lanes) of other groups
        self.waiting: dict[object, list[tuple[int, int]]] = {}  # by what they wait for
        self.together: dict[int, list[int]] = {}  # by barrier: lanes that passed a BSSY together
        self.trace: list = []
        self.ended = self.at_barrier = False

    def to_barrier(self) -> bool:
        """To the next barrier of the block (True), or to the end."""
        self.go_on()
        while not (self.at_barrier or self.ended):
            self.go_on()
        return not self.ended

    def go_on(self) -> None:
        """By one instruction, and to the next barrier of the block or atomic, or to the end."""
        with np.errstate(all="ignore"):
            self.at_barrier = self.run()

    def run(self) -> bool:
        """Whether it stops for a barrier."""
        steps, trace = self.launch.steps, self.trace
        before = len(trace)
        while True:
            at = self.at
            code, act, guard, negated = steps[at]
            if code.name in ATOMICS and len(trace) > before:
                return False
            lanes = None if self.active == ALL else lanes_of(self.active)
            if guard != 7 or negated:
                holds = ~self.p[guard] if negated else self.p[guard]
                lanes = holds if lanes is None else holds & lanes
                if not lanes.any():
                    trace.append(at)
                    self.at = at + 1
                    continue
                if lanes.all():
                    lanes = None
            if act is not None:
                self.at = at + 1
                extra = act(self, lanes)
                trace.append(at if extra is None else (at, *extra))
                continue
            trace.append(at)
            if code.name == "BAR":
                self.at = at + 1
                if self.meet("BAR", self.live):
                    return True
                continue
            if not self.control(code, ALL if lanes is None else mask_of(lanes)):
                self.ended = True
                return False

    def control(self, code: Instruction, mask: int) -> bool:
        """Where the active lanes go next; False if none are left."""
        name, at, flags = code.name, self.at, code.flags
        mask &= self.active
        self.at = at + 1
        if name in ("BRA", "EXIT", "BREAK"):  # which may have a predicate beside their guard
            for operand in code.operands:
                if operand.kind == "P":
                    holds = self.p[operand.value]
                    mask &= mask_of(~holds if operand.negated else holds)
        if name == "BRA":
            if "DIV" in flags and self.active == self.live:
                mask = 0
            if "CONV" in flags and self.active != self.live:
                mask = 0
            target = code.operands[-1].value
            if mask == self.active:
                self.at = target
            elif mask:
                self.ready.append((target, mask))
                self.active &= ~mask
        elif name == "BSSY":
            groups = [
                group & ~self.active for group in self.together.get(code.operands[0].value, [])
            ]
            self.together[code.operands[0].value] = [*filter(None, groups), self.active]
        elif name == "BREAK":
            b = code.operands[-1].value
            self.together[b] = [group & ~mask for group in self.together[b]]
            return self.release_all()
        elif name == "BSYNC":
            b = code.operands[0].value
            self.meet(b, next(group for group in self.together[b] if group & self.active))
        elif name == "WARPSYNC":
            operand = code.operands[0]
            first = (self.active & -self.active).bit_length() - 1
            wanted = operand.value if operand.kind == "imm" else int(self.r[operand.value, first])
            self.meet("WARPSYNC", wanted)
        elif name == "YIELD":
            if self.ready:
                self.ready.insert(0, (self.at, self.active))
                self.next_group()
        elif name == "CALL":
            self.at = code.operands[-1].value
        elif name == "RET":
            targets = self.r[code.operands[0].value][lanes_of(self.active)]
            if (targets != targets[0]).any():
                raise unknown(code)
            self.at = int(targets[0]) // 16
        elif name == "EXIT":
            self.live &= ~mask
            self.active &= ~mask
            return self.release_all()
        return True

    def meet(self, key: object, wanted: int) -> bool:
        """Waits for the wanted lanes; True if all of them are there, and go on together."""
        waiting = self.waiting.setdefault(key, [])
        waiting.append((self.at, self.active))
        arrived = 0
        for _, lanes in waiting:
            arrived |= lanes
        if wanted & self.live & ~arrived == 0:
            self.release(key, wanted)
            self.next_group()
            return True
        self.next_group()
        return False

    def release(self, key: object, wanted: int) -> None:
        merged: dict[int, int] = {}
        for at, lanes in self.waiting[key]:
            if lanes & wanted:
                merged[at] = merged.get(at, 0) | lanes
        self.waiting[key] = [group for group in self.waiting[key] if not group[1] & wanted]
        self.ready += merged.items()

    def release_all(self) -> bool:
        """After lanes left: groups that waited for nobody else. False if no lane is left."""
        for b, groups in self.together.items():
            for group in groups:
                arrived = 0
                for _, lanes in self.waiting.get(b, []):
                    arrived |= lanes & group
                if arrived and group & self.live & ~arrived == 0:
                    self.release(b, group)
        if not self.active:
            if not self.live:
                return False
            self.next_group()
        return True

    def next_group(self) -> None:
        if not self.ready:
            raise RuntimeError("lanes of a warp wait for each other")
        self.at, self.active = self.ready.pop()


def compile_step(code: Instruction, x: Operands) -> tuple:
    """(instruction, function or None for control flow, guard, whether it is negated)"""
    if code.name in CONTROL:
        act = None
    elif (code.name in IDLE and not is_prefetch(code)) or (code.guard == 7 and code.guard_negated):
        act = nothing
    elif code.name in FROM_ELSEWHERE:
        act = FROM_ELSEWHERE[code.name](code, x)
    else:
        act = compile_arithmetic(code, x)
    return code, act, code.guard, code.guard_negated


def nothing(w: Warp, m: np.ndarray | None) -> None:
    return None
