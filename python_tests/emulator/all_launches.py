"""Every launch that the operators can make, from the launchers themselves; no kernel runs."""

from __future__ import annotations

import ctypes

from .build import HERE, LAUNCH_HEADER_DIR, compile_kernels, load_runtime
from .launches import Launch, read_launches

SAMPLES = 4096
# Every size up to 128; beyond, what the launchers compare sizes with, and around it.
CLASSES = [*range(1, 41), 64, 65, 100, 128, 129, 192, 193, 256, 257, 384, 512, 513, 768, 769, 1000]
CLASSES += [1025, 1536, 2048, 2049, 3072, 3073, 4097, 6144, 6145]
PARTS = [*range(1, 129), 160, 161, 192, 193, 256, 257, 320, 321, 384, 400, 513, 769, 1025, 1600]


def all_launches() -> dict[str, dict[tuple[int, int], tuple[int, int]]]:
    """By kernel: its (threads, dynamic shared memory), each with the first (C, R) that has it."""
    sources = sorted(LAUNCH_HEADER_DIR.glob("*.cu"))
    kernels = compile_kernels([*sources, HERE / "all_launches.cu"], check=False)
    runtime = load_runtime()
    runtime.cuda_emulator_take_record.restype = ctypes.c_char_p
    runtime.cuda_emulator_take_error.restype = ctypes.c_char_p
    found: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}
    runtime.cuda_emulator_record(1)
    try:
        for classes in CLASSES:
            for parts in PARTS:
                for launch in _launches_at(kernels, runtime, classes, parts):
                    sizes = found.setdefault(launch.kernel, {})
                    sizes.setdefault((launch.threads, launch.shared), (classes, parts))
    finally:
        runtime.cuda_emulator_record(0)
    return found


def _launches_at(kernels: ctypes.CDLL, runtime: ctypes.CDLL, c: int, r: int) -> list[Launch]:
    kernels.launch_all(*map(ctypes.c_int64, (SAMPLES, c, r)))
    error = runtime.cuda_emulator_take_error()
    if error is not None:
        raise RuntimeError(f"at {c} classes and {r} parts: {error.decode()}")
    return read_launches(runtime.cuda_emulator_take_record().decode())
