"""Checks that a tensor's device can run this build's kernels, before one is launched."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from ptd_ext import _C

__all__ = ["check_device"]


def check_device(logits: Tensor) -> None:
    """Raise RuntimeError with a sentence that says what to do, if no kernel runs on that device.

    Costs nothing for a tensor on the CPU, and one look into a dictionary for one on a GPU.
    """
    if logits.is_cpu or torch.compiler.is_compiling() or not logits.is_cuda:
        return
    sentence = unsupported(logits.device.index)
    if sentence is not None:
        raise RuntimeError(sentence)


@functools.cache
def unsupported(index: int) -> str | None:
    """Why this GPU cannot run the kernels, or None; a GPU does not change while a process runs."""
    build = _C.build_info()
    if not build["cuda"]:
        return (
            f"These tensors are on cuda:{index}, but this build of ptd_ext has kernels for the CPU "
            "only: build it again with `PTD_EXT_CUDA=on pip install .` where nvcc is found, or "
            "move the tensors to the CPU."
        )
    capability = torch.cuda.get_device_capability(index)
    if is_covered(capability, build["cuda_archs"]):
        return None
    arch = "".join(map(str, capability))
    return (
        f"cuda:{index}, {torch.cuda.get_device_name(index)}, is of architecture {arch}, but this "
        f"build of ptd_ext has kernels for {', '.join(build['cuda_archs'])} only: build it again "
        f"with `PTD_EXT_CUDA_ARCHS={arch} pip install .`{_toolkit_hint(capability)}."
    )


def is_covered(capability: tuple[int, int], archs: Sequence[str]) -> bool:
    """Return True if kernels built for `archs` run on a GPU of this compute capability.

    Machine code runs within its major version, from its minor version on. The newest architecture
    is also there as PTX, which the driver compiles for any later one.
    """
    built = [(int(arch[:-1]), int(arch[-1])) for arch in archs]
    same_major = any(b[0] == capability[0] and b[1] <= capability[1] for b in built)
    return same_major or (bool(built) and max(built) <= capability)


def _toolkit_hint(capability: tuple[int, int]) -> str:
    return " and a CUDA 12 toolkit, since CUDA 13 dropped it" if capability < (7, 5) else ""
