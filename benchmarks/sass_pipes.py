"""Which pipe of a V100's scheduler an instruction takes, for how long, and when its result is due.

Rates by the CUDA programming guide (compute capability 7.0); that a product of 64 bits takes twice
as long, and branches two cycles, are guesses. Latencies by Jia et al., "Dissecting the NVIDIA Volta
GPU architecture via microbenchmarking", 2018; those of arithmetic stand in the machine code.
"""

from __future__ import annotations

from dataclasses import dataclass

from sass_program import Instruction

# Cycles that a pipe of a scheduler is taken: 16 lanes of FP32 (and integer products) and of other
# integers, 8 of FP64, 4 of special functions and conversions.
PIPES = {"fma": 2, "alu": 2, "fp64": 4, "special": 8, "branch": 2, "memory": 1}
# Cycles until a result that a counter guards can be used.
LATENCY = {"fp64": 8, "special": 18, "SHFL": 23, "LDS": 19, "S2R": 20, "LDC": 28, "FCHK": 14}
LATENCY |= {"ATOMS": LATENCY["LDS"]}  # and a turn more for each lane with the same address

FMA = {"IMAD", "IDP", "FFMA", "FADD", "FMUL"}
FP64 = {"DADD", "DFMA", "DMUL", "DSETP"}
SPECIAL = {"MUFU", "F2F", "I2F", "F2I", "POPC", "FLO", "FCHK", "S2R"}
BRANCH = {"BRA", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "YIELD", "CALL", "RET", "EXIT", "BMOV"}
BRANCH |= {"BAR", "NOP", "MEMBAR", "ERRBAR", "CCTL"}
MEMORY = {"LDG", "STG", "LDS", "STS", "SHFL", "ATOMG", "ATOMS", "RED", "LDC"}


@dataclass(slots=True)
class Timed:
    """What the clock needs of an instruction."""

    name: str
    pipe: str
    cost: int
    stall: int
    yields: bool
    waits: tuple[int, ...]
    write: int
    read: int
    latency: int
    registers: int  # that it loads
    through: bool  # past the first-level cache
    near: bool  # asks for what is to be in it
    text: str


def is_prefetch(code: Instruction) -> bool:
    return code.name == "CCTL" and not {"PF1", "PF2"}.isdisjoint(code.flags)


def timed(code: Instruction) -> Timed:
    pipe = next(
        (
            pipe
            for pipe, names in (
                ("fma", FMA), ("fp64", FP64), ("special", SPECIAL), ("branch", BRANCH),
                ("memory", MEMORY),
            )
            if code.name in names
        ),
        "alu",
    )  # fmt: skip
    if is_prefetch(code):
        pipe = "memory"
    if code.guard == 7 and code.guard_negated:
        pipe = "alu"  # never runs
    cost = PIPES[pipe] * (2 if code.name == "IMAD" and "WIDE" in code.flags else 1)
    latency = LATENCY.get(code.name, LATENCY.get(pipe, 10))
    wide = next((n for n in (4, 2) if str(32 * n) in code.flags), 1)
    registers = wide if code.name == "LDG" else 0
    stall = max(code.stall, 2 if code.yields else 1)  # a yield leaves the next cycle to others
    return Timed(
        code.name, pipe, cost, stall + code.conflict, code.yields, code.waits,
        code.write_barrier, code.read_barrier, latency, registers, "STRONG" in code.flags,
        "PF1" in code.flags, code.text,
    )  # fmt: skip
