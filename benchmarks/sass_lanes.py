"""What arithmetic instructions of sm_70 do to the 32 lanes of a warp.

`compile_instruction` turns an instruction into a function of a warp and a mask (None: all lanes).
A warp has registers r [260, 32] of 32 bits, the same as floats f, and predicates p [9, 32]. Writes
to RZ and PT go to rows that nobody reads. An instruction that is not known here is an error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sass_program import Instruction, Operand

LANES = np.arange(32, dtype=np.uint32)
LOW = np.uint64(0xFFFFFFFF)
WORD = np.uint64(32)
NOWHERE, NO_PREDICATE = 256, 8
COMPARE = {"LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}
COMPARE |= {"EQ": np.equal, "NE": np.not_equal}
Get = Callable[["Warp"], np.ndarray]  # noqa: F821
Run = Callable[["Warp", "np.ndarray | None"], None]  # noqa: F821


def mask_of(lanes: np.ndarray) -> int:
    return int(np.packbits(lanes, bitorder="little").view(np.uint32)[0])


def unknown(code: Instruction) -> NotImplementedError:
    return NotImplementedError(f"no model of this instruction: {code.text}")


class Operands:
    """Readers and writers of an instruction's operands, for the constants of a launch."""

    def __init__(self, banks: dict[int, bytes]):
        self.banks = banks

    def constant(self, operand: Operand, dtype: str) -> np.ndarray:
        data = self.banks[operand.bank][operand.value :]
        return np.full(32, np.frombuffer(data, dtype, 1)[0])

    @staticmethod
    def number(o: Operand) -> int:
        """An immediate operand; anything else is not understood."""
        if o.kind not in ("imm", "float"):
            raise NotImplementedError(f"no model of this operand: {o.text}")
        return o.value

    def u32(self, o: Operand) -> Get:
        if o.kind == "R":
            n = o.value
            if o.negated:
                return lambda w: np.negative(w.r[n])
            if o.inverted:
                return lambda w: ~w.r[n]
            return lambda w: w.r[n]
        if o.kind == "const":
            value = self.constant(o, "u4")
            value = np.negative(value) if o.negated else ~value if o.inverted else value
        else:
            value = np.full(32, self.number(o), np.uint32)
        return lambda w: value

    def i32(self, o: Operand) -> Get:
        get = self.u32(o)
        return lambda w: get(w).view(np.int32)

    def addend(self, o: Operand) -> Get:
        """As 64 bits, so that carries show: -x adds ~x and one."""
        if o.negated:
            get = self.u32(Operand(o.kind, o.value, bank=o.bank))
            return lambda w: np.uint64(1 << 32) - get(w)
        get = self.u32(o)
        return lambda w: get(w).astype(np.uint64)

    def u64(self, o: Operand) -> Get:
        if o.kind == "R":
            n = o.value
            if n == 255:
                zero = np.zeros(32, np.uint64)
                return lambda w: zero
            return lambda w: w.r[n] | w.r[n + 1].astype(np.uint64) << WORD
        if o.kind == "const":
            value = self.constant(o, "u8")
        else:
            value = (
                np.full(32, self.number(o), np.int64).astype(np.int32).astype(np.int64).view("u8")
            )
        return lambda w: value

    def f32(self, o: Operand) -> Get:
        if o.kind == "R":
            n, negated = o.value, o.negated
            if o.absolute:
                return lambda w: -np.abs(w.f[n]) if negated else np.abs(w.f[n])
            if negated:
                return lambda w: -w.f[n]
            return lambda w: w.f[n]
        if o.kind == "const":
            value = self.constant(o, "f4")
            value = np.abs(value) if o.absolute else value
            value = -value if o.negated else value
        else:
            value = np.full(32, self.number(o), np.uint32).view(np.float32)
        return lambda w: value

    def f64(self, o: Operand) -> Get:
        if o.kind == "R":
            get, sign = self.u64(o), -1.0 if o.negated else 1.0
            if o.absolute:
                return lambda w: sign * np.abs(get(w).view(np.float64))
            return lambda w: sign * get(w).view(np.float64)
        if o.kind == "const":
            value = self.constant(o, "f8") * (-1.0 if o.negated else 1.0)
        else:  # the upper half of a double
            value = np.full(32, self.number(o) << 32, np.uint64).view(np.float64)
        return lambda w: value

    def predicate(self, o: Operand) -> Get:
        n, negated = o.value, o.negated
        return (lambda w: ~w.p[n]) if negated else (lambda w: w.p[n])


def put(d: int, f: Callable) -> Run:
    """Writes 32-bit results, integers or floats."""
    d = NOWHERE if d == 255 else d

    def run(w, m):
        value = f(w)
        if m is None:
            w.r[d] = value.view(np.uint32)
        else:
            np.copyto(w.r[d], value.view(np.uint32), where=m)

    return run


def put64(d: int, f: Callable) -> Run:
    d = NOWHERE if d == 255 else d

    def run(w, m):
        value = f(w).view(np.uint64)
        both = (value & LOW).astype(np.uint32), (value >> WORD).astype(np.uint32)
        for row, half in enumerate(both):
            np.copyto(w.r[d + row], half, where=True if m is None else m)

    return run


def set_predicate(w, d: int, value: np.ndarray, m: np.ndarray | None) -> None:
    np.copyto(w.p[NO_PREDICATE if d == 7 else d], value, where=True if m is None else m)


def lookup(table: int, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Any function of three bits, by its table of eight."""
    if table == 0xC0:
        return a & b
    if table == 0xFC:
        return a | b
    if table == 0x3C:
        return a ^ b
    result = a ^ a
    for row in range(8):
        if table >> row & 1:
            term = (a if row & 4 else ~a) & (b if row & 2 else ~b)
            result = result | (term & (c if row & 1 else ~c))
    return result


def rounded(exact: np.ndarray, flags: tuple[str, ...]) -> np.ndarray:
    """To float32, the way the flags say."""
    value = exact.astype(np.float32)
    if "RM" in flags or "RZ" in flags or "RP" in flags:
        down = np.nextafter(value, np.float32(-np.inf))
        up = np.nextafter(value, np.float32(np.inf))
        lower, upper = np.where(value > exact, down, value), np.where(value < exact, up, value)
        toward_zero = np.where(exact > 0, lower, upper)
        value = lower if "RM" in flags else upper if "RP" in flags else toward_zero
    if "SAT" in flags:
        value = np.where(np.isnan(value), np.float32(0), np.clip(value, 0, 1)).astype(np.float32)
    return value


def comparison(
    code: Instruction, a: Get, b: Get, below: Get | None = None
) -> Callable[..., np.ndarray]:
    """What the flags ask of a and b; `below` is the answer for a longer number's lower half."""
    how = next(
        flag for flag in code.flags if flag[:2] in ("LT", "LE", "GT", "GE", "EQ", "NE", "NA", "NU")
    )
    if "EX" in code.flags:
        below = below or (lambda w: True)
        strict = COMPARE[{"GE": "GT", "LE": "LT"}.get(how, how)]

        def test(w):
            x, y = a(w), b(w)
            if how == "NE":
                return (x != y) | below(w)
            if how == "EQ":
                return (x == y) & below(w)
            return strict(x, y) | ((x == y) & below(w))
    elif how in ("NAN", "NUM"):

        def test(w):
            return (np.isnan(a(w)) | np.isnan(b(w))) == (how == "NAN")
    elif how.endswith("U"):
        ordered = COMPARE[how[:2]]

        def test(w):
            x, y = a(w), b(w)
            return ordered(x, y) | np.isnan(x) | np.isnan(y)
    else:
        ordered = COMPARE[how]

        def test(w):
            x, y = a(w), b(w)
            result = ordered(x, y)
            return (
                result & ~(np.isnan(x) | np.isnan(y))
                if how == "NE" and x.dtype.kind == "f"
                else result
            )

    return test


def combination(code: Instruction) -> Callable[..., np.ndarray]:
    """How the result of a comparison is combined with another predicate."""
    if "XOR" in code.flags:
        return np.logical_xor
    return np.logical_or if "OR" in code.flags else np.logical_and


def compares(code: Instruction, get: Callable[[Operand], Get], x: Operands) -> Run:
    """ISETP, FSETP and DSETP: P, P, a, b, P and, of a longer number's upper half, P (or PT)."""
    d, other, a, b, given, *low = code.operands
    test = comparison(code, get(a), get(b), x.predicate(low[0]) if low else None)
    combine, given = combination(code), x.predicate(given)
    first, second = d.value, other.value

    def run(w, m):
        result, also = test(w), given(w).copy()
        set_predicate(w, first, combine(result, also), m)
        if second != 7:
            set_predicate(w, second, combine(~result, also), m)

    return run


def compares_to_float(code: Instruction, x: Operands) -> Run:
    """FSET.BF: R, a, b, P."""
    d, a, b, given = code.operands
    if "BF" not in code.flags:
        raise unknown(code)
    test, combine, given = (
        comparison(code, x.f32(a), x.f32(b)),
        combination(code),
        x.predicate(given),
    )
    return put(d.value, lambda w: combine(test(w), given(w)).astype(np.float32))
