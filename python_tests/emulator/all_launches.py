"""Every launch that the operators can make, from the launchers themselves; no kernel runs."""

from __future__ import annotations

import ctypes
import functools

from .build import HERE, LAUNCH_HEADER_DIR, compile_kernels, load_runtime
from .launches import recording

SAMPLES = (512, 8192)
# Every size up to 128; beyond, what the launchers compare sizes with, and around it.
CLASSES = [
    *range(1, 41),
    64,
    65,
    68,
    96,
    97,
    100,
    128,
    129,
    192,
    193,
    256,
    257,
    384,
    512,
    513,
    768,
    769,
    1000,
]
CLASSES += [1025, 1536, 2048, 2049, 3072, 3073, 4097, 6144, 6145]
PARTS = [*range(1, 129), 160, 161, 192, 193, 256, 257, 320, 321, 384, 400, 513, 769, 1025, 1600]


@functools.cache
def launchers() -> ctypes.CDLL:
    """launch_all(N, C, R) of all_launches.cu."""
    sources = sorted(LAUNCH_HEADER_DIR.glob("*.cu"))
    return compile_kernels([*sources, HERE / "all_launches.cu"], check=False)


def all_launches() -> dict[str, dict[tuple[int, int], tuple[int, int]]]:
    """By kernel: its (threads, dynamic shared memory), each with the first (C, R) that has it."""
    kernels = launchers()
    runtime = load_runtime()
    runtime.cuda_emulator_take_error.restype = ctypes.c_char_p
    found: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}
    for classes in CLASSES:
        for parts in PARTS:
            with recording(traffic=False) as launches:
                for samples in SAMPLES:
                    kernels.launch_all(*map(ctypes.c_int64, (samples, classes, parts)))
            error = runtime.cuda_emulator_take_error()
            if error is not None:
                raise RuntimeError(f"at {classes} classes and {parts} parts: {error.decode()}")
            for launch in launches:
                sizes = found.setdefault(launch.kernel, {})
                sizes.setdefault((launch.threads, launch.shared), (classes, parts))
    return found
