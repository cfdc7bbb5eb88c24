"""Checks that a tensor's device can run this build's kernels, before one is launched."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from ptd_ext import _C


def check_device(logits: Tensor) -> None:
    """Raise RuntimeError if this build has no kernels for the device of a tensor.

    For a tensor on a GPU this costs a dictionary lookup, for one on the CPU less.
    """
    if logits.is_cpu or torch.compiler.is_compiling() or not logits.is_cuda:
        return
    problem = unsupported(logits.device.index)
    if problem is not None:
        raise RuntimeError(problem)


@functools.cache
def unsupported(index: int) -> str | None:
    """Return why this GPU cannot run the kernels, or None; the answer is cached."""
    build = _C.build_info()
    if not build["cuda"]:
        return (
            f"These tensors are on cuda:{index}, but this build of ptd_ext has only CPU kernels: "
            "build it again with `PTD_EXT_CUDA=on pip install .` where nvcc is found, or move the "
            "tensors to the CPU."
        )
    capability = torch.cuda.get_device_capability(index)
    if is_covered(capability, build["cuda_archs"]):
        return None
    arch = "".join(map(str, capability))
    toolkit = " and a CUDA 12 toolkit, since CUDA 13 dropped it" if capability < (7, 5) else ""
    return (
        f"cuda:{index}, {torch.cuda.get_device_name(index)}, has architecture {arch}, but this "
        f"build of ptd_ext has kernels for {', '.join(build['cuda_archs'])}: build it again "
        f"with `PTD_EXT_CUDA_ARCHS={arch} pip install .`{toolkit}."
    )


def is_covered(capability: tuple[int, int], archs: Sequence[str]) -> bool:
    """Return True if kernels built for `archs` run on a GPU of this compute capability.

    Machine code runs within its major version, from its minor version on. The build also has PTX of
    the newest architecture, which the driver compiles for any later one.
    """
    built = [(int(arch[:-1]), int(arch[-1])) for arch in archs]
    same_major = any(b[0] == capability[0] and b[1] <= capability[1] for b in built)
    return same_major or (bool(built) and max(built) <= capability)
