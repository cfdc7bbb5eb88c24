"""The integer and logic instructions of sm_70 that the kernels use, one function each."""

from __future__ import annotations

import re

import numpy as np
from sass_floating import check_quotient, convert, double_op, extreme, float_op, special
from sass_lanes import (
    LOW,
    WORD,
    Operands,
    Run,
    compares,
    compares_to_float,
    lookup,
    put,
    put64,
    set_predicate,
    unknown,
)
from sass_program import Instruction, Operand

MASK = 0xFFFFFFFF


def compile_arithmetic(code: Instruction, x: Operands) -> Run:
    """The instruction as a function of a warp and a mask."""
    table = {
        "MOV": move, "IMAD": multiply_add, "IADD3": add, "LEA": scaled_add, "LOP3": logic,
        "IDP": dot_bytes,
        "PLOP3": predicate_logic, "SHF": shift, "SEL": select, "FSEL": select, "FMNMX": extreme,
        "IMNMX": integer_extreme,
        "FADD": float_op, "FMUL": float_op, "FFMA": float_op, "DADD": double_op,
        "DMUL": double_op, "DFMA": double_op, "MUFU": special, "FCHK": check_quotient,
        "F2F": convert, "I2F": convert, "F2I": convert, "IABS": bits, "POPC": bits, "FLO": bits,
        "BREV": bits,
        "PRMT": permute, "P2R": pack_predicates, "R2P": unpack_predicates, "CS2R": clear,
    }  # fmt: skip
    if code.name == "ISETP":
        return compares(code, x.u32 if "U32" in code.flags else x.i32, x)
    if code.name == "FSETP":
        return compares(code, x.f32, x)
    if code.name == "DSETP":
        return compares(code, x.f64, x)
    if code.name == "FSET":
        return compares_to_float(code, x)
    if code.name not in table:
        raise unknown(code)
    return table[code.name](code, x)


def move(code: Instruction, x: Operands) -> Run:
    return put(code.operands[0].value, x.u32(code.operands[1]))


def clear(code: Instruction, x: Operands) -> Run:
    if code.operands[1].text != "SRZ":
        raise unknown(code)
    zero = np.zeros(32, np.uint64)
    return put64(code.operands[0].value, lambda w: zero)


def multiply_add(code: Instruction, x: Operands) -> Run:
    d, a, b, c, *carry = code.operands
    if "HI" in code.flags:
        raise unknown(code)
    if "WIDE" in code.flags:
        c = x.u64(c)
        if "U32" in code.flags:
            a, b = x.u32(a), x.u32(b)
            return put64(d.value, lambda w: a(w).astype(np.uint64) * b(w) + c(w))
        a, b = x.i32(a), x.i32(b)
        return put64(d.value, lambda w: (a(w).astype(np.int64) * b(w)).view(np.uint64) + c(w))
    if "MOV" in code.flags:
        return put(d.value, x.u32(c))
    a, b, c = x.u32(a), x.u32(b), x.u32(c)
    if carry:
        more = x.predicate(carry[0])
        return put(d.value, lambda w: a(w) * b(w) + c(w) + more(w).astype(np.uint32))
    return put(d.value, lambda w: a(w) * b(w) + c(w))


def dot_bytes(code: Instruction, x: Operands) -> Run:
    """IDP.4A: c and the products of four bytes each."""
    if set(code.flags) != {"4A", "U8"}:
        raise unknown(code)
    d, *rest = code.operands
    a, b, c = map(x.u32, rest)

    def run(w):
        x, y, total = a(w), b(w), c(w)
        for byte in range(0, 32, 8):
            total = total + (x >> np.uint32(byte) & 255) * (y >> np.uint32(byte) & 255)
        return total

    return put(d.value, run)


def add(code: Instruction, x: Operands) -> Run:
    """Three addends; carries go to predicates, and come from them in the upper half."""
    d, *rest = code.operands
    carries = []
    while rest[0].kind == "P":
        carries.append(rest.pop(0).value)
    if not carries and "X" not in code.flags:
        a, b, c = map(x.u32, rest[:3])
        return put(d.value, lambda w: a(w) + b(w) + c(w))
    a, b, c = map(x.addend, rest[:3])
    more = [x.predicate(o) for o in rest[3:] if o.value != 7 or not o.negated]

    def run(w, m):
        total = a(w) + b(w) + c(w)
        for p in more:
            total = total + p(w)
        put(d.value, lambda w: (total & LOW).astype(np.uint32))(w, m)
        for count, p in enumerate(carries):
            set_predicate(w, p, (total >> WORD) > count, m)

    return run


def scaled_add(code: Instruction, x: Operands) -> Run:
    """LEA: (a << s) + b; LEA.HI: the upper half of (c:a << s), and b."""
    d, *rest = code.operands
    carries = [rest.pop(0).value] if rest[0].kind == "P" else []
    a, b = rest[0], x.u32(rest[1])
    more = None
    if "HI" not in code.flags:
        shift, negated = np.uint64(rest[2].value), a.negated
        get = x.u32(Operand(a.kind, a.value, bank=a.bank))

        def scaled(w):
            value = (get(w).astype(np.uint64) << shift) & LOW
            return np.uint64(1 << 32) - value if negated else value
    else:
        if a.negated:
            raise unknown(code)
        sign = "SX32" in code.flags
        upper = None if sign else x.u32(rest[2])
        shift, low = np.uint64(rest[2 if sign else 3].value), x.u32(a)
        if "X" in code.flags:
            more = x.predicate(rest[-1])

        def scaled(w):
            if sign:
                value = low(w).view(np.int32).astype(np.int64).view(np.uint64)
            else:
                value = low(w) | upper(w).astype(np.uint64) << WORD
            return (value << shift) >> WORD

    def run(w, m):
        total = scaled(w) + b(w)
        if more is not None:
            total = total + more(w)
        put(d.value, lambda w: (total & LOW).astype(np.uint32))(w, m)
        for p in carries:
            set_predicate(w, p, (total >> WORD) > 0, m)

    return run


def logic(code: Instruction, x: Operands) -> Run:
    operands = list(code.operands)
    tested = operands.pop(0).value if operands[0].kind == "P" else None
    d, a, b, c, table, given = operands
    a, b, c = map(x.u32, (a, b, c))
    if tested is None:
        return put(d.value, lambda w: lookup(table.value, a(w), b(w), c(w)))
    given = x.predicate(given)

    def run(w, m):
        value = lookup(table.value, a(w), b(w), c(w))
        put(d.value, lambda w: value)(w, m)
        set_predicate(w, tested, (value != 0) | given(w), m)

    return run


def predicate_logic(code: Instruction, x: Operands) -> Run:
    first, second, *given, one, two = code.operands
    a, b, c = map(x.predicate, given)

    def run(w, m):
        values = a(w).copy(), b(w).copy(), c(w).copy()
        set_predicate(w, first.value, lookup(one.value, *values), m)
        set_predicate(w, second.value, lookup(two.value, *values), m)

    return run


def shift(code: Instruction, x: Operands) -> Run:
    """A funnel: the upper or the lower half of (c:a) shifted, by 32 at most unless it wraps."""
    d, a, s, c = code.operands
    flags = code.flags
    width = 64 if "U64" in flags or "S64" in flags else 32
    a, s, c = x.u32(a), x.u32(s), x.u32(c)
    left, signed = "L" in flags, "S32" in flags or "S64" in flags

    def run(w):
        count = s(w).astype(np.uint64)
        count = count & np.uint64(width - 1) if "W" in flags else np.minimum(count, width)
        low, high = a(w), c(w)
        if width == 32 and not left and "HI" in flags:
            if signed:
                return (high.view(np.int32).astype(np.int64) >> count.view(np.int64)).astype(
                    np.int32
                )
            return (high.astype(np.uint64) >> count).astype(np.uint32)
        if width == 32 and left and "HI" not in flags:
            return ((low.astype(np.uint64) << count) & LOW).astype(np.uint32)
        if width == 32 or signed:
            raise unknown(code)
        both = low | high.astype(np.uint64) << WORD
        both = both << count if left else both >> count
        return ((both >> WORD if "HI" in flags else both) & LOW).astype(np.uint32)

    return put(d.value, run)


def select(code: Instruction, x: Operands) -> Run:
    d, a, b, p = code.operands
    get = x.f32 if code.name == "FSEL" else x.u32
    a, b, p = get(a), get(b), x.predicate(p)
    return put(d.value, lambda w: np.where(p(w), a(w), b(w)))


def integer_extreme(code: Instruction, x: Operands) -> Run:
    d, a, b, p = code.operands
    get = x.u32 if "U32" in code.flags else x.i32
    a, b, p = get(a), get(b), x.predicate(p)
    return put(d.value, lambda w: np.where(p(w), np.minimum(a(w), b(w)), np.maximum(a(w), b(w))))


def bits(code: Instruction, x: Operands) -> Run:
    d, a = code.operands
    if code.name == "IABS":
        a = x.i32(a)
        return put(d.value, lambda w: np.abs(a(w)))
    a = x.u32(a)
    if code.name == "POPC":
        spread = 1 << np.arange(32, dtype=np.uint32)
        return put(d.value, lambda w: ((a(w)[:, None] & spread) != 0).sum(1).astype(np.uint32))
    if code.name == "BREV":
        return put(
            d.value, lambda w: np.array([int(f"{int(v):032b}"[::-1], 2) for v in a(w)], np.uint32)
        )

    def highest(w):
        found = [int(v).bit_length() - 1 for v in a(w)]
        if "SH" in code.flags:
            found = [31 - at if at >= 0 else MASK for at in found]
        return np.array([at & MASK for at in found], np.uint32)

    return put(d.value, highest)


def permute(code: Instruction, x: Operands) -> Run:
    """Each nibble of the selector names a byte of (c:a), or its sign."""
    d, a, s, c = code.operands
    if len(code.flags) or s.kind != "imm":
        raise unknown(code)
    a, c = x.u32(a), x.u32(c)

    def run(w):
        both = a(w) | c(w).astype(np.uint64) << WORD
        result = np.zeros(32, np.uint32)
        for byte in range(4):
            choice = s.value >> 4 * byte & 15
            picked = (both >> np.uint64(8 * (choice & 7))).astype(np.uint32) & 255
            if choice & 8:
                picked = np.where(picked & 128, 255, 0).astype(np.uint32)
            result |= (picked << (8 * byte)).astype(np.uint32)
        return result

    return put(d.value, run)


def pack_predicates(code: Instruction, x: Operands) -> Run:
    d, _, a, mask = code.operands
    a, mask = x.u32(a), np.uint32(mask.value)

    def run(w):
        packed = (w.p[:7].astype(np.uint32) << np.arange(7, dtype=np.uint32)[:, None]).sum(0)
        return (a(w) & ~mask) | (packed.astype(np.uint32) & mask)

    return put(d.value, run)


def unpack_predicates(code: Instruction, x: Operands) -> Run:
    """From the lowest bits of a register, or of one of its bytes: R1.B2."""
    _, a, mask = code.operands
    byte = re.fullmatch(r"R(\d+)\.B([0-3])", a.text)
    shift = np.uint32(8 * int(byte[2]) if byte else 0)
    number = int(byte[1]) if byte else None
    a = x.u32(a) if byte is None else lambda w: w.r[number]

    def run(w, m):
        value = a(w) >> shift
        for p in range(7):
            if mask.value >> p & 1:
                set_predicate(w, p, (value >> np.uint32(p) & 1).astype(bool), m)

    return run
