"""Run emulated CUDA kernels from a test.

    kernels = compile_kernels([CSRC / "cuda" / "scale.cu"])

    with Emulator(kernels, seed=1) as gpu:
        x = gpu.input(np.arange(100, dtype=np.float32), name="x")
        y = gpu.output(100, np.float32, name="y")
        gpu.call("scale", x, y, 100, 2.0)
        np.testing.assert_array_equal(y.get(), 2 * x.get())

Any error that the emulator finds is raised by `call` as an `EmulatorError`.
"""

from __future__ import annotations

import ctypes
import math
import operator
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .build import CompileError, compile_kernels, compiler, load_runtime

__all__ = [
    "CompileError",
    "DeviceArray",
    "Emulator",
    "EmulatorError",
    "compile_kernels",
    "compiler",
]


class EmulatorError(Exception):
    """An error of a kernel: its kind, kernel, block, thread, and line in the source."""


class DeviceArray:
    """An array in emulated device memory. `get` copies it back as what it was made from."""

    def __init__(self, pointer: int, nbytes: int, rebuild: Callable[[bytearray], Any]):
        self.pointer = pointer
        self.nbytes = nbytes
        self._rebuild = rebuild

    def get(self) -> Any:
        """Return a copy, a NumPy array or a torch tensor."""
        return self._rebuild(bytearray(ctypes.string_at(self.pointer, self.nbytes)))


class Emulator:
    """Emulated device memory, and calls of the launchers of one library, if one is given.

    `seed` sets the order of blocks and threads. With probability `switch_probability` a thread
    gives way to another at an access to memory, not only at barriers (checked libraries only).
    `check_initialised=False` allows reads of shared memory that the block has not written; they
    give NaN, or -1.

    Blocks run one after another, or `interleave` of them at a time: then their threads take turns,
    and checked libraries report races between blocks on global memory.

    A launch fails after `max_work` accesses, barriers, shuffles, votes and fences, of which
    libraries that are not checked count all but the accesses, or after `max_seconds` of CPU time.
    """

    def __init__(
        self,
        kernels: ctypes.CDLL | None = None,
        *,
        seed: int = 0,
        switch_probability: float = 0.0,
        check_initialised: bool = True,
        interleave: int = 1,
        max_work: int = 10**9,
        max_seconds: float = 60.0,
    ):
        self._kernels = kernels
        self._runtime = load_runtime()
        self._runtime.cuda_emulator_allocate.restype = ctypes.c_void_p
        self._runtime.cuda_emulator_take_error.restype = ctypes.c_char_p
        self._settings = (
            ctypes.c_uint64(seed),
            ctypes.c_double(switch_probability),
            ctypes.c_int(check_initialised),
        )
        self._interleave = ctypes.c_int(interleave)
        self._limits = (ctypes.c_int64(max_work), ctypes.c_double(max_seconds))
        self._count = 0

    def __enter__(self) -> Emulator:
        self._runtime.cuda_emulator_configure(*self._settings)
        self._runtime.cuda_emulator_set_interleave(self._interleave)
        self._runtime.cuda_emulator_set_limits(*self._limits)
        return self

    def __exit__(self, *exception: object) -> None:
        self._runtime.cuda_emulator_free_all()

    def input(self, values: Any, *, name: str = "", align: int = 16) -> DeviceArray:
        """Copy a NumPy array or torch tensor to memory that kernels may only read."""
        array = self.array(values, name=name, align=align)
        self._runtime.cuda_emulator_make_read_only(ctypes.c_void_p(array.pointer))
        return array

    def array(self, values: Any, *, name: str = "", align: int = 16) -> DeviceArray:
        """Copy a NumPy array or torch tensor to memory that kernels may read and write."""
        if isinstance(values, np.ndarray):
            data = np.ascontiguousarray(values).tobytes()
        else:
            data = _tensor_bytes(values)
        array = self.output(tuple(values.shape), values.dtype, name=name, align=align)
        ctypes.memmove(array.pointer, data, len(data))
        return array

    def output(
        self, shape: int | tuple[int, ...], dtype: Any, *, name: str = "", align: int = 16
    ) -> DeviceArray:
        """Allocate an array filled with NaN, or -1; `dtype` is NumPy's or torch's."""
        shape = (shape,) if isinstance(shape, int) else shape
        rebuild = _numpy_rebuild if _is_numpy(dtype) else _tensor_rebuild
        itemsize = np.dtype(dtype).itemsize if _is_numpy(dtype) else dtype.itemsize
        nbytes = math.prod(shape) * itemsize
        self._count += 1
        pointer = self._runtime.cuda_emulator_allocate(
            (name or f"#{self._count}").encode(), ctypes.c_size_t(nbytes), ctypes.c_size_t(align)
        )
        return DeviceArray(pointer, nbytes, lambda data: rebuild(data, shape, dtype))

    def call(self, function: str, *arguments: DeviceArray | int | float | None) -> int:
        """Call a launcher; pass arrays as pointers, numbers as `int64_t` and `double`.

        Returns what the launcher returns, if that is an integer.
        """
        launcher = self._kernels[function]
        launcher.restype = ctypes.c_int64
        result = launcher(*map(_as_c, arguments))
        self.raise_error()
        return result

    def raise_error(self) -> None:
        """Raise what the launches since the last call of this function did wrong, if anything."""
        error = self._runtime.cuda_emulator_take_error()
        if error is not None:
            raise EmulatorError(_with_lines(error.decode())) from None


def _as_c(argument: DeviceArray | int | float | None) -> Any:
    if isinstance(argument, DeviceArray):
        return ctypes.c_void_p(argument.pointer)
    if argument is None:
        return ctypes.c_void_p()
    if isinstance(argument, float | np.floating):
        return ctypes.c_double(argument)
    return ctypes.c_int64(operator.index(argument))


def _is_numpy(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype | type)


def _numpy_rebuild(data: bytearray, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.frombuffer(data, dtype).reshape(shape)


# torch is imported only for a caller that has it.
def _tensor_bytes(tensor: Any) -> bytes:
    import torch

    return tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _tensor_rebuild(data: bytearray, shape: tuple[int, ...], dtype: Any) -> Any:
    import torch

    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def _with_lines(text: str) -> str:
    """Replace "[library+0x1234]" by "(file.cu:12)" where addr2line finds it."""

    def line(match: re.Match[str]) -> str:
        tool = shutil.which("addr2line")
        if tool is None:
            return match[0]
        done = subprocess.run([tool, "-e", match[1], match[2]], capture_output=True, text=True)
        place = Path(done.stdout.split(" ")[0].strip()).name
        return match[0] if not place or place.startswith("?") else f"({place})"

    return re.sub(r"\[([^\]+]+)\+(0x[0-9a-f]+)\]", line, text)
