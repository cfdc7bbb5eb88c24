"""What lanes learn from elsewhere: special registers, constants, other lanes, and memory.

Accesses of memory return what a trace keeps of them: the passes that shared memory takes, or the
sectors of global memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from sass_lanes import LANES, NOWHERE, Operands, Run, mask_of, put, set_predicate, unknown
from sass_memory import GLOBAL, passes
from sass_program import Instruction, Operand


def special_register(code: Instruction, x: Operands) -> Run:
    name = code.operands[1].text
    values: dict[str, Callable] = {
        "SR_TID.X": lambda w: LANES + np.uint32(32 * w.number),
        "SR_LANEID": lambda w: LANES,
        "SR_LTMASK": lambda w: (np.uint32(1) << LANES) - np.uint32(1),
    }
    for axis, letter in enumerate("XYZ"):
        values[f"SR_CTAID.{letter}"] = lambda w, axis=axis: np.full(32, w.index[axis], np.uint32)
    if name not in values:
        raise unknown(code)
    return put(code.operands[0].value, values[name])


def load_constant(code: Instruction, x: Operands) -> Run:
    d, place = code.operands
    if place.base != 255:
        raise unknown(code)
    value = x.constant(place, "u1" if "U8" in code.flags else "u4").astype(np.uint32)
    return put(d.value, lambda w: value)


def vote(code: Instruction, x: Operands) -> Run:
    """A mask of the lanes, or whether any or all of them are in it."""
    *results, given = code.operands
    everybody = "ALL" in code.flags
    if not everybody and "ANY" not in code.flags:
        raise unknown(code)
    p = x.predicate(given)

    def run(w, m):
        active = np.ones(32, bool) if m is None else m
        holds = p(w) & active
        bits = np.full(32, mask_of(holds), np.uint32)
        decided = np.full(32, (holds == active).all() if everybody else holds.any())
        for result in results:
            if result.kind == "R":
                put(result.value, lambda w: bits)(w, m)
            else:
                set_predicate(w, result.value, decided, m)

    return run


def shuffle(code: Instruction, x: Operands) -> Run:
    p, d, a, b, c = code.operands
    a, b, c = map(x.u32, (a, b, c))
    d = NOWHERE if d.value == 255 else d.value
    how = code.flags[0]
    if how not in ("BFLY", "IDX", "UP", "DOWN"):
        raise unknown(code)

    def run(w, m):
        value, by, limit = a(w).copy(), b(w) & 31, c(w)
        segment = (limit >> 8) & 31
        top = (LANES & segment) | (limit & 31 & ~segment)
        if how == "IDX":
            source = (by & ~segment) | (LANES & segment)
        else:
            source = LANES ^ by if how == "BFLY" else LANES + by if how == "DOWN" else LANES - by
        within = source.view(np.int32) >= top if how == "UP" else source <= top
        result = np.where(within, value[source & 31], value)
        np.copyto(w.r[d], result, where=True if m is None else m)
        set_predicate(w, p.value, within, m)

    return run


def access(code: Instruction, x: Operands) -> Run:
    """Loads and stores of global and shared memory."""
    shared, loads = code.name in ("LDS", "STS"), code.name in ("LDG", "LDS")
    place = code.operands[1 if loads else 0]
    register = code.operands[0 if loads else 1].value
    size = next((s for s in ("U8", "U16", "64", "128", "S8", "S16") if s in code.flags), "32")
    if size in ("S8", "S16"):
        raise unknown(code)
    width = int(size.strip("U")) // 8
    unit = np.dtype(f"u{min(width, 4)}")
    if place.kind != "mem":
        raise unknown(code)
    offset, base, scale = place.value, place.base, place.scale
    target = NOWHERE if register == 255 and loads else register
    wide = not shared and "E" in code.flags

    def run(w, m):
        address = w.r[base].astype(np.int64)
        if wide:
            address |= w.r[base + 1].astype(np.int64) << 32
        address = address * scale + offset
        there = address if m is None else address[m]
        if shared:
            lanes = LANES if m is None else LANES[m]
            memory, extra = w.shared, (passes(lanes, there, width, loads),)
            index = there // unit.itemsize
        else:
            memory = w.memory.data
            index = (there - GLOBAL) // unit.itemsize
            extra = (tuple(dict.fromkeys((there >> 5).tolist())),)
        if (there % width).any():
            raise RuntimeError(f"{code.text} accesses memory that is not aligned")
        words = memory.view(unit)
        if index.min() < 0 or index.max() + max(width // 4, 1) > len(words):
            raise RuntimeError(f"{code.text} accesses memory that is not there")
        for part in range(max(width // 4, 1)):
            if loads:
                value = words[index + part].astype(np.uint32)
                if m is None:
                    w.r[target + part] = value
                else:
                    w.r[target + part, m] = value
            else:
                row = w.r[255 if register == 255 else register + part]
                words[index + part] = (row if m is None else row[m]).astype(unit)
        return extra

    return run


def prefetch(code: Instruction, x: Operands) -> Run:
    """CCTL.E.PF2 [R2]: to the second level, or the first (PF1), the sector of each lane."""
    (place,) = code.operands

    def run(w, m):
        address = w.r[place.base].astype(np.int64) | w.r[place.base + 1].astype(np.int64) << 32
        there = (address if m is None else address[m]) + place.value
        return (tuple(dict.fromkeys((there >> 5).tolist())),)

    return run


def atomic(code: Instruction, x: Operands) -> Run:
    """Of one 32-bit word each, lane by lane."""
    *results, place, value = code.operands
    if place.kind != "mem" or "ADD" not in code.flags or "F32" in "".join(code.flags):
        raise unknown(code)
    target = results[-1].value if results and results[-1].value != 255 else NOWHERE
    if code.name == "ATOMS":
        return shared_atomic(place, value, target)

    def run(w, m):
        words, sectors = w.memory.data.view(np.uint32), {}
        for lane in range(32) if m is None else np.flatnonzero(m):
            address = int(w.r[place.base, lane]) | int(w.r[place.base + 1, lane]) << 32
            word = (address + place.value - GLOBAL) // 4
            sectors[address >> 5] = None
            old = words[word]
            words[word] = old + w.r[value.value, lane]
            w.r[target, lane] = old
        return (tuple(sectors),)

    return run


def shared_atomic(place: Operand, value: Operand, target: int) -> Run:
    """Lanes with the same address take turns, of two passes each: a read and a write."""

    def run(w, m):
        words, turns = w.shared.view(np.uint32), Counter()
        for lane in range(32) if m is None else np.flatnonzero(m):
            word = (int(w.r[place.base, lane]) * place.scale + place.value) // 4
            turns[word] += 1
            old = words[word]
            words[word] = old + w.r[value.value, lane]
            w.r[target, lane] = old
        return (2 * max(turns.values()),)

    return run


FROM_ELSEWHERE = {"S2R": special_register, "LDC": load_constant, "VOTE": vote, "SHFL": shuffle}
FROM_ELSEWHERE |= {"LDG": access, "STG": access, "LDS": access, "STS": access, "ATOMG": atomic}
FROM_ELSEWHERE |= {"RED": atomic, "ATOMS": atomic, "CCTL": prefetch}
