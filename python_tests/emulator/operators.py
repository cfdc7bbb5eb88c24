"""The CUDA operators as torch sees them, run by the emulator on CPU tensors.

    with emulated(seed=1) as ops:
        loss, total, saved = ops.transition_loss(logits, labels, ...)  # as torch.ops.ptd_ext has it

They are the ones of csrc/cuda, kernels, launchers and torch glue, under another name. Kernels may
read the tensors that the glue hands them, from the first number to the last, and write only to what
the glue has allocated, which is NaN until then. Any error that the emulator finds is raised as an
`EmulatorError`.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import build
from .harness import Emulator
from .launches import collect

GRADIENTS = ("grad_logits", "grad_weights", "grad_parts", "grad_slack")


class Operators:
    """The operators by name. `arrays`: bytes of each array that the last one called has touched."""

    def __init__(self, library: Any, gpu: Emulator):
        self.arrays: dict[str, int] = {}
        self._library = library
        self._gpu = gpu
        self._runtime = build.load_runtime()
        self._runtime.cuda_emulator_borrowed.restype = ctypes.c_char_p

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._call, getattr(self._library, name))

    def _call(self, operator: Any, *arguments: Any) -> Any:
        schema = operator.default._schema
        # Arguments that have a default may be left out.
        for given, argument in zip(schema.arguments, arguments, strict=False):
            if hasattr(argument, "data_ptr"):
                address = ctypes.c_void_p(argument.data_ptr())
                self._runtime.cuda_emulator_name(address, given.name.encode())
        result = None
        try:
            result = operator(*arguments)
        finally:
            self._end(schema, result)
            # Holds more than the error of the operator, which only knows that a launch failed.
            self._gpu.raise_error()
        return result

    def _end(self, schema: Any, result: Any) -> None:
        """Names the outputs, and forgets the arrays."""
        outputs = result if isinstance(result, tuple) else () if result is None else (result,)
        returned = {
            tensor.data_ptr(): _return_name(schema, i)
            for i, tensor in enumerate(outputs)
            if tensor.numel()
        }
        names, self.arrays = {}, {}
        for line in self._runtime.cuda_emulator_borrowed().decode().splitlines():
            name, address, size = line.split("\t")
            names[name] = returned.get(int(address), name)
            self.arrays[names[name]] = int(size)
        self._runtime.cuda_emulator_forget_borrowed()
        collect(names)


def _return_name(schema: Any, number: int) -> str:
    """The name of a result in the schema, or of the argument that it is the gradient of."""
    if len(schema.returns) == len(GRADIENTS):
        return GRADIENTS[number]
    return schema.returns[number].name or "result"


@contextmanager
def emulated(*, check: bool = True, **settings: Any) -> Iterator[Operators]:
    """The operators, with the emulator set by `settings`: those of `Emulator`.

    Without `check` the code runs several times faster, and accesses to memory are not watched.
    """
    library = _load(check)
    with Emulator(**settings) as gpu:
        build.load_runtime().cuda_emulator_watch_borrowed(int(check))
        yield Operators(library, gpu)


@functools.cache
def _load(check: bool) -> Any:
    """Compile and load what csrc/cuda holds."""
    import torch

    name = "ptd_emulated" if check else "ptd_emulated_unchecked"
    folder = Path(torch.__file__).parent
    flags = [*build.COMMON, *build.KERNEL, *(f"-I{path}" for path in build.INCLUDE_DIRS)]
    kernels = [*flags, *(build.CHECKED if check else build.FAST)]
    glue = [*flags, *build.FAST, "-fexceptions", "-fvisibility=hidden"]
    glue += ["-isystem", str(folder / "include"), "-DTORCH_TARGET_VERSION=0x020a000000000000ULL"]
    objects = build._compile_all(sorted(build.CUDA.rglob("*.cu")), kernels)
    objects += build._compile_all(
        sorted(build.CUDA.rglob("*.cpp")), [*glue, f"-Dptd_emulated={name}"]
    )
    objects += build._compile_all([build.CSRC / "schema.cpp"], [*glue, f"-Dptd_ext={name}"])
    runtime = build._runtime()
    libraries = [str(runtime), f"-Wl,-rpath,{runtime.parent}", str(folder / "lib/libtorch_cpu.so")]
    torch.ops.load_library(build._link(objects, libraries))
    return getattr(torch.ops, name)
