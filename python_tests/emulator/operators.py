"""The CUDA operators as torch sees them, run by the emulator: torch.ops.ptd_emulated.

They are the ones of csrc/cuda, kernels, launchers and torch glue, under another name and on CPU
tensors. Memory is torch's own, so that accesses are not watched as in kernels compiled by
`compile_kernels`; what this is for is the glue: layouts, strides, types, and what is allocated.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from . import build

CSRC = build.LAUNCH_HEADER_DIR.parent


@functools.cache
def emulated_operators() -> Any:
    """Compile and load what csrc/cuda holds; returns torch.ops.ptd_emulated."""
    import torch

    folder = Path(torch.__file__).parent
    flags = [*build.COMMON, *build.KERNEL, *build.FAST, "-fexceptions", "-fvisibility=hidden"]
    flags += [f"-I{path}" for path in (build.HERE, build.LAUNCH_HEADER_DIR)]
    flags += ["-isystem", str(folder / "include"), "-DTORCH_TARGET_VERSION=0x020a000000000000ULL"]
    cuda = build.LAUNCH_HEADER_DIR
    objects = build._compile_all([*sorted(cuda.glob("*.cu")), *sorted(cuda.glob("*.cpp"))], flags)
    objects += build._compile_all([CSRC / "schema.cpp"], [*flags, "-Dptd_ext=ptd_emulated"])
    runtime = build._runtime()
    libraries = [str(runtime), f"-Wl,-rpath,{runtime.parent}", str(folder / "lib/libtorch_cpu.so")]
    torch.ops.load_library(build._link(objects, libraries))
    return torch.ops.ptd_emulated
