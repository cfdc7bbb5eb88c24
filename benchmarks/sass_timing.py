"""One multiprocessor of a V100, cycle by cycle, issuing what warps of sass_warp.py run.

Four schedulers issue one instruction a cycle each, of a warp that is theirs for good: in order, not
before the cycles are over that the instruction before it asks for, and not before the counters that
the instruction names are down. A scheduler goes on with a warp while it can, then takes the
youngest (Huerta et al., "Analyzing modern NVIDIA GPU cores", 2025). Pipes take a warp's instruction
every so many cycles. Loads, stores and shuffles wait in a short queue of each scheduler, have their
addresses worked out eight lanes a cycle, and go to one unit of the multiprocessor, a pass a cycle.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from sass_memory import SPAN, Caches
from sass_pipes import PIPES, Timed, timed
from sass_program import NO_BARRIER, Program
from sass_warp import Warp as Running

SECTORS = 4  # of global memory that the memory unit serves in a pass
QUEUE, ADDRESSES = 5, 4  # of a scheduler: instructions that wait; cycles for each one's addresses
OPERANDS = 8  # cycles after its turn until the unit has read an instruction's registers
BARRIER, TAKEN_BRANCH, NEXT_BLOCK, FENCE = 12, 2, 100, 400  # guesses


class Warp:
    __slots__ = (
        "age", "at", "block", "cause", "counters", "free", "issued", "place", "runs", "scheduler",
        "trace",
    )  # fmt: skip

    def __init__(self, runs: Running, block: Block, scheduler: int, age: int, now: int):
        self.runs, self.trace = runs, runs.trace
        self.block, self.scheduler, self.age = block, scheduler, age
        self.at, self.free, self.issued = 0, now, now
        self.place = 0  # of the next instruction
        self.counters = [0.0] * 6  # when each is down
        self.cause = [""] * 6

    def ended(self) -> bool:
        return self.at == len(self.trace) and self.runs.ended

    def next(self) -> int:
        """The place of the next instruction, which may not have been run."""
        if self.at == len(self.trace):
            return self.runs.at
        entry = self.trace[self.at]
        return entry if type(entry) is int else entry[0]

    def ready(self, codes: list[Timed]) -> tuple[float, str]:
        """When the next instruction may issue, and what it waits for."""
        when, why = self.free, "fixed latency"
        for counter in codes[self.place].waits:
            if self.counters[counter] > when:
                when, why = self.counters[counter], self.cause[counter]
        return when, why


@dataclass(eq=False)
class Block:
    place: int
    left: int  # warps that have not ended
    waiting: list[Warp] = field(default_factory=list)  # at the block's barrier


@dataclass
class Result:
    cycles: float = 0.0
    issued: int = 0
    busy: Counter = field(default_factory=Counter)  # cycles, by pipe, of all four schedulers
    stalls: Counter = field(default_factory=Counter)  # cycles of warps, by reason
    hot: Counter = field(default_factory=Counter)  # cycles of warps until each instruction issues
    unit: float = 0.0  # cycles of the memory unit
    l2: float = 0.0
    dram: float = 0.0
    filled: int = 0  # cycles until no block was left to start,
    issued_filled: int = 0  # and the instructions until then
    issued_at: Counter = field(default_factory=Counter)  # by span of time
    dram_at: Counter = field(default_factory=Counter)

    def share(self, name: str) -> float:
        whole = {"memory unit": self.unit, "L2": self.l2, "DRAM": self.dram}
        if name in whole:
            return whole[name] / self.cycles
        return (self.issued if name == "issue" else self.busy[name]) / 4 / self.cycles

    def timeline(self, steps: int = 20) -> tuple[list[float], list[float]]:
        """How far schedulers and DRAM are taken, from the start to the end."""
        spans = int(self.cycles) // SPAN + 1
        lines = []
        for taken, most in ((self.issued_at, 4), (self.dram_at, 1)):
            edges = [spans * step // steps for step in range(steps + 1)]
            lines.append([
                sum(taken[span] for span in range(a, b)) / most / SPAN / max(b - a, 1)
                for a, b in pairwise(edges)
            ])  # fmt: skip
        return lines[0], lines[1]


class Processor:
    def __init__(self, program: Program, caches: Caches):
        self.codes = [timed(code) for code in program.code]
        self.caches, self.result = caches, Result()
        self.pipes = [dict.fromkeys(PIPES, 0) for _ in range(4)]  # when each is free
        self.queues: list[deque[float]] = [deque() for _ in range(4)]
        self.addresses = [0.0] * 4  # when each scheduler's are free to be worked out
        self.unit_free = 0.0
        self.sleeping: list[list] = [[] for _ in range(4)]  # heaps of (when, age, why, warp)
        self.awake: list[list] = [[] for _ in range(4)]
        self.last: list[Warp | None] = [None] * 4
        self.age = 0
        self.end = 0.0

    def run(self, blocks: Iterator[list[Running]], resident: int) -> Result:
        """All blocks, so many at once, each its warps: those that have not ended go on as they get
        to it here."""
        self.blocks = blocks
        for place in range(resident):
            self.start_block(place, 0)
        now = 0
        while any(self.sleeping) or any(self.awake):
            soonest = None
            for scheduler in range(4):
                sleeping, awake = self.sleeping[scheduler], self.awake[scheduler]
                while sleeping and sleeping[0][0] <= now:
                    awake.append(heapq.heappop(sleeping)[1:])
                if awake:
                    self.pick(scheduler, now)
                    soonest = now + 1
                elif sleeping:
                    when = -int(-sleeping[0][0] // 1)
                    soonest = when if soonest is None else min(soonest, when)
            if soonest is None and not any(self.sleeping):
                break
            now = now + 1 if soonest is None else max(soonest, now + 1)
        result = self.result
        result.cycles = max(self.end, now)
        result.l2, result.dram = self.caches.l2_busy, self.caches.dram_busy
        result.dram_at = self.caches.dram_at
        return result

    def start_block(self, place: int, now: int) -> None:
        warps = next(self.blocks, None)
        if warps is None:
            if not self.result.filled:
                self.result.filled, self.result.issued_filled = now, self.result.issued
            return
        block = Block(place, len(warps))
        for number, runs in enumerate(warps):
            self.age += 1
            scheduler = (place * len(warps) + number) % 4
            self.sleep(Warp(runs, block, scheduler, self.age, now))

    def sleep(self, warp: Warp) -> None:
        warp.place = warp.next()
        when, why = warp.ready(self.codes)
        heapq.heappush(self.sleeping[warp.scheduler], (when, warp.age, why, warp))

    def pick(self, scheduler: int, now: int) -> None:
        awake, last = self.awake[scheduler], self.last[scheduler]
        awake.sort(key=lambda item: (item[2] is not last, -item[0]))
        pipes, queue, stalls = self.pipes[scheduler], self.queues[scheduler], self.result.stalls
        while queue and queue[0] <= now:
            queue.popleft()
        chosen = None
        for item in awake:
            code = self.codes[item[2].place]
            if chosen is not None:
                stalls["not selected"] += 1
            elif pipes[code.pipe] > now:
                stalls[f"{code.pipe} pipe busy"] += 1
            elif code.pipe == "memory" and len(queue) >= QUEUE:
                stalls["memory queue full"] += 1
            else:
                chosen = item
        if chosen is not None:
            awake.remove(chosen)
            self.issue(chosen[2], chosen[1], now)

    def issue(self, warp: Warp, why: str, now: int) -> None:
        if warp.at == len(warp.trace):
            warp.runs.go_on()
        entry, result, scheduler = warp.trace[warp.at], self.result, warp.scheduler
        place = warp.place
        code = self.codes[place]
        waited = now - warp.issued
        result.issued += 1
        result.issued_at[now // SPAN] += 1
        result.hot[place] += waited
        result.stalls[why] += max(warp.ready(self.codes)[0] - warp.issued - 1, 0)
        result.busy[code.pipe] += code.cost
        self.pipes[scheduler][code.pipe] = now + code.cost
        warp.issued, warp.free = now, now + code.stall
        self.last[scheduler] = None if code.yields else warp
        if code.pipe == "memory":
            self.access(warp, code, entry, now)
        elif code.write != NO_BARRIER:
            self.raise_counter(warp, code.write, now + code.latency, code.pipe)
        if code.read != NO_BARRIER and code.pipe != "memory":
            self.raise_counter(warp, code.read, now + OPERANDS, "operands")
        if code.name == "MEMBAR":
            warp.free = now + FENCE
        elif code.name == "CCTL" and code.pipe != "memory":
            self.caches.tags.clear()
        warp.at += 1
        if code.name == "BAR":
            warp.block.waiting.append(warp)
            self.meet(warp.block, now)
            return
        if warp.ended():
            self.finish(warp, now)
            return
        if warp.next() != place + 1:
            warp.free += TAKEN_BRANCH
        self.sleep(warp)

    @staticmethod
    def raise_counter(warp: Warp, counter: int, until: float, cause: str) -> None:
        if until > warp.counters[counter]:
            warp.counters[counter], warp.cause[counter] = until, cause

    def access(self, warp: Warp, code: Timed, entry: object, now: int) -> None:
        """Its turn at the memory unit, and what follows from it."""
        ready = max(float(now), self.addresses[warp.scheduler])
        self.addresses[warp.scheduler] = ready + ADDRESSES
        start = max(ready, self.unit_free)
        taken, done, cause = 1, start + code.latency, code.name
        given = None if type(entry) is int else entry[1]
        if given is None:
            pass  # no lane was active, or nothing but registers is exchanged
        elif code.name in ("LDS", "STS", "ATOMS"):
            taken = given
            done = start + code.latency + taken - 1
        else:
            taken = max(-(-len(given) // SECTORS), code.registers)
            if code.name == "STG":
                done = self.caches.store(given, start)
            elif code.near:
                self.caches.load(given, start, through=False)
            elif code.name == "CCTL":
                self.caches.prefetch(given, start)
            else:
                atomic = code.name == "ATOMG"
                done = self.caches.load(given, start, code.through or atomic) + taken - 1
        if code.name == "LDC":
            taken = 0
        self.unit_free = start + taken
        self.result.unit += taken
        self.queues[warp.scheduler].append(start)
        self.end = max(self.end, done)
        if code.write != NO_BARRIER:
            self.raise_counter(warp, code.write, done, cause)
        if code.read != NO_BARRIER:
            self.raise_counter(warp, code.read, start + taken + OPERANDS, f"{cause} operands")

    def meet(self, block: Block, now: int) -> None:
        """Lets the block's warps go on if all that have not ended are at its barrier."""
        if len(block.waiting) < block.left:
            return
        for warp in block.waiting:
            self.result.stalls["block barrier"] += now - warp.issued
            warp.free = max(warp.free, now + BARRIER)
            self.sleep(warp)
        block.waiting = []

    def finish(self, warp: Warp, now: int) -> None:
        block = warp.block
        block.left -= 1
        self.end = max(self.end, now)
        if block.left:
            if block.waiting:
                self.meet(block, now)
        else:
            self.start_block(block.place, now + NEXT_BLOCK)
