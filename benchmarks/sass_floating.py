"""The floating-point instructions of sm_70 that the kernels use, one function each."""

from __future__ import annotations

import numpy as np
from sass_lanes import WORD, Operands, Run, put, put64, rounded, set_predicate, unknown
from sass_program import Instruction


def extreme(code: Instruction, x: Operands) -> Run:
    d, a, b, p = code.operands
    a, b, p = x.f32(a), x.f32(b), x.predicate(p)
    return put(d.value, lambda w: np.where(p(w), np.fmin(a(w), b(w)), np.fmax(a(w), b(w))))


def float_op(code: Instruction, x: Operands) -> Run:
    d, *given = code.operands
    plain = not set(code.flags) & {"RM", "RP", "RZ", "SAT"}
    a, b, *c = map(x.f32, given)
    if code.name == "FADD" and plain:
        return put(d.value, lambda w: a(w) + b(w))
    if code.name == "FMUL" and plain:
        return put(d.value, lambda w: a(w) * b(w))
    if code.name != "FFMA":
        raise unknown(code)
    c, flags = c[0], code.flags
    return put(d.value, lambda w: rounded(a(w).astype(np.float64) * b(w) + c(w), flags))


def double_op(code: Instruction, x: Operands) -> Run:
    """The product of a multiply-add is rounded here, and upward rounding is not told apart."""
    d, *given = code.operands
    a, b, *c = map(x.f64, given)
    if code.name == "DADD":
        return put64(d.value, lambda w: a(w) + b(w))
    if code.name == "DMUL":
        return put64(d.value, lambda w: a(w) * b(w))
    return put64(d.value, lambda w: (a(w).astype(np.longdouble) * b(w) + c[0](w)).astype("f8"))


def special(code: Instruction, x: Operands) -> Run:
    d, a = code.operands
    if code.flags[0] == "RCP64H":
        high = x.u32(a)

        def reciprocal(w):
            value = 1.0 / (high(w).astype(np.uint64) << WORD).view(np.float64)
            return (value.view(np.uint64) >> WORD).astype(np.uint32)

        return put(d.value, reciprocal)
    functions = {
        "EX2": np.exp2, "LG2": np.log2, "RCP": lambda v: np.float32(1) / v, "SQRT": np.sqrt,
        "RSQ": lambda v: (1 / np.sqrt(v)).astype(np.float32),
    }  # fmt: skip
    if code.flags[0] not in functions:
        raise unknown(code)
    function, a = functions[code.flags[0]], x.f32(a)
    return put(d.value, lambda w: function(a(w)))


def check_quotient(code: Instruction, x: Operands) -> Run:
    """Whether a quotient is too near the edges of float32 for the short program."""
    p, a, b = code.operands
    a, b = x.f32(a), x.f32(b)

    def run(w, m):
        top, bottom = np.abs(a(w)), np.abs(b(w))
        difference = np.frexp(top)[1] - np.frexp(bottom)[1]
        hard = ~np.isfinite(top) | ~np.isfinite(bottom) | (bottom < 2.0**-126)
        hard |= (bottom > 2.0**125) | (difference > 125) | (difference < -125)
        hard |= (top < 2.0**-102) & (top > 0)
        set_predicate(w, p.value, hard, m)

    return run


def convert(code: Instruction, x: Operands) -> Run:
    d, a = code.operands
    flags = code.flags
    if code.name == "F2F":
        if flags[:2] == ("F32", "F64"):
            a = x.f64(a)
            return put(d.value, lambda w: a(w).astype(np.float32))
        if flags[:2] == ("F64", "F32"):
            a = x.f32(a)
            return put64(d.value, lambda w: a(w).astype(np.float64))
        raise unknown(code)
    if code.name == "I2F":
        get = x.u32(a) if "U32" in flags else x.i32(a)
        if "U64" in flags or "S64" in flags:
            raise unknown(code)
        if "F64" in flags:
            return put64(d.value, lambda w: get(w).astype(np.float64))
        return put(d.value, lambda w: rounded(get(w).astype(np.float64), flags))
    if "TRUNC" not in flags or {"U64", "S64", "F64", "S8", "U8", "S16", "U16"} & set(flags):
        raise unknown(code)
    a, dtype = x.f32(a), np.uint32 if "U32" in flags else np.int32
    lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max

    def run(w):
        return np.clip(np.nan_to_num(a(w).astype(np.float64)), lowest, highest).astype(dtype)

    return put(d.value, run)
