"""Global memory of a modelled launch, the passes of shared memory, and the caches.

Sectors have 32 bytes, lines 128. An array that all blocks read comes from DRAM once for the whole
GPU; everything else comes from DRAM when a multiprocessor first touches it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

import numpy as np

GLOBAL = 1 << 32  # where global memory starts
SPAN = 256  # cycles, of which a timeline has one number
PASSES: dict[tuple, int] = {}


class Memory:
    """Arrays, one after another."""

    def __init__(self) -> None:
        self.data = np.zeros(0, np.uint8)
        self.shared_by_all: list[tuple[int, int]] = []  # sectors: first, and one past the last
        self.places: dict[int, tuple] = {}

    def add(self, array: np.ndarray, cached: bool = False) -> int:
        start = -(-len(self.data) // 256) * 256
        data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        end = np.zeros(256 - len(data) % 256, np.uint8)  # an empty array has its own place too
        gap = np.zeros(start - len(self.data), np.uint8)
        self.data = np.concatenate([self.data, gap, data, end])
        first = GLOBAL + start
        if cached:
            self.shared_by_all.append((first >> 5, (first + len(data) + 31) >> 5))
        self.places[first] = (array.shape, array.dtype)
        return first

    def word(self, place: int) -> np.ndarray:
        """The 32-bit integer at an address."""
        start = place - GLOBAL
        return self.data[start : start + 4].view(np.uint32)

    def array(self, place: int) -> np.ndarray:
        """The array that was added there, as it is now."""
        shape, dtype = self.places[place]
        count = int(np.prod(shape))
        return np.frombuffer(self.data, dtype, count, place - GLOBAL).reshape(shape)


def passes(lanes: np.ndarray, addresses: np.ndarray, width: int, loads: bool) -> int:
    """Of shared memory: each serves one word of every bank, to any number of lanes.

    64 bits a lane go half a warp at a time, 128 a quarter, unless all words fit into one pass. What
    is loaded returns to the lanes a register a pass, or two where neighbours, or else lanes two
    apart, load from the same address.
    """
    start = int(addresses[0]) & ~127
    key = (width, loads, lanes.tobytes(), (addresses - start).tobytes())
    found = PASSES.get(key)
    if found is None:
        words = (addresses[:, None] - start) // 4 + np.arange(max(width // 4, 1))
        distinct = np.unique(words)
        if len(distinct) <= 32 and np.bincount(distinct % 32).max() == 1:
            found = 1
        else:
            found, group = 0, 128 // max(width, 4)
            for first in range(0, len(words), group):
                some = np.unique(words[first : first + group])
                found += int(np.bincount(some % 32).max())
        if loads:
            registers = max(width // 4, 1)
            pairs = any(in_pairs(lanes, addresses, apart) for apart in (1, 2))
            found = max(found, -(-registers // 2) if pairs else registers)
        PASSES[key] = found
    return found


def in_pairs(lanes: np.ndarray, addresses: np.ndarray, apart: int) -> bool:
    """Whether lanes that are so far apart have the same address, of those that are active."""
    of_lane = dict(zip(lanes.tolist(), addresses.tolist(), strict=True))
    return all(of_lane.get(lane ^ apart, at) == at for lane, at in of_lane.items())


class Caches:
    """Of one multiprocessor: its first-level cache, and its share of the second level and DRAM.

    `share` is the part of the launch's work that is done here, and of the bandwidth it gets: a
    multiprocessor with more to do than others gets more of it, as it would once they are done.
    Requests queue for bandwidth in the order they come, and then take a latency. Stores write
    through; of DRAM's time they take theirs once for each sector.
    """

    # Cycles (Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking",
    # 2018), and bytes a second of the whole GPU.
    L1_HIT, L2_HIT, DRAM = 28, 193, 420
    CLOCK, L2_BANDWIDTH, DRAM_BANDWIDTH = 1.53e9, 2.1e12, 900e9
    PORT = 64  # bytes a cycle that reach one multiprocessor at most

    def __init__(self, memory: Memory, cache_bytes: int, share: float):
        self.shared_by_all, self.lines = memory.shared_by_all, max(cache_bytes // 128, 4)
        self.l2_step = 32 * max(self.CLOCK / self.L2_BANDWIDTH / share, 1 / self.PORT)
        self.dram_step = 32 * max(self.CLOCK / self.DRAM_BANDWIDTH / share, 1 / self.PORT)
        self.common_step = 32 * self.CLOCK / self.DRAM_BANDWIDTH  # of what all read
        self.tags: OrderedDict[int, dict[int, float]] = OrderedDict()  # sectors: when they come
        self.known: dict[int, float] = {}  # sectors in L2, and since when
        self.written: set[int] = set()
        self.l2_free = self.dram_free = self.l2_busy = self.dram_busy = 0.0
        self.dram_at: Counter[int] = Counter()  # cycles it is taken, by span of time

    def common(self, sector: int) -> bool:
        return any(first <= sector < last for first, last in self.shared_by_all)

    def take_dram(self, now: float, cycles: float) -> None:
        self.dram_free = max(self.dram_free, now) + cycles
        self.dram_busy += cycles
        self.dram_at[int(self.dram_free) // SPAN] += cycles

    def fetch(self, sector: int, now: float) -> float:
        """When a sector that is not in the first level arrives."""
        self.l2_free = max(self.l2_free, now) + self.l2_step
        self.l2_busy += self.l2_step
        return max(self.l2_free + self.L2_HIT, self.in_second_level(sector, now))

    def in_second_level(self, sector: int, now: float) -> float:
        """When a multiprocessor gets it, were the second level at its leisure."""
        if sector not in self.known:
            common = self.common(sector)
            self.take_dram(now, self.common_step if common else self.dram_step)
            # Of what all read, another multiprocessor asked before.
            early = common and now > self.DRAM
            self.known[sector] = 0.0 if early else self.dram_free + self.DRAM
        return self.known[sector]

    def prefetch(self, sectors: tuple[int, ...], now: float) -> None:
        """Asks for the sectors, which stay in the second level."""
        for sector in sectors:
            self.in_second_level(sector, now)

    def load(self, sectors: tuple[int, ...], now: float, through: bool) -> float:
        """When the last of the sectors is there, past the first level if `through`."""
        done = now + self.L1_HIT
        for sector in sectors:
            if through:
                done = max(done, self.fetch(sector, now))
                continue
            line = self.tags.get(sector >> 2)
            if line is None:
                line = self.tags[sector >> 2] = {}
                if len(self.tags) > self.lines:
                    self.tags.popitem(last=False)
            else:
                self.tags.move_to_end(sector >> 2)
            if sector not in line:
                line[sector] = self.fetch(sector, now)
            done = max(done, line[sector])
        return done

    def store(self, sectors: tuple[int, ...], now: float) -> float:
        """When the sectors are in the second level, or on their way to DRAM the last of them."""
        for sector in sectors:
            self.l2_free = max(self.l2_free, now) + self.l2_step
            self.l2_busy += self.l2_step
            self.known[sector] = 0.0
            if sector not in self.written:
                self.written.add(sector)
                if not self.common(sector):
                    self.take_dram(now, self.dram_step)
        return max(self.l2_free, self.dram_free)
