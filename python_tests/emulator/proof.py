"""Shared by the emulator's own tests: libraries, seeds, inputs, and the form of a report."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import pytest

from .harness import Emulator, EmulatorError, compile_kernels, compiler

KERNELS = Path(__file__).parent / "kernels"


@functools.cache
def checked():
    return compile_kernels(sorted(KERNELS.glob("*.cu")))


@functools.cache
def fast():
    return compile_kernels(sorted(KERNELS.glob("*.cu")), check=False)


needs_compiler = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")
each_seed = pytest.mark.parametrize("seed", range(4))
each_mode = pytest.mark.parametrize("kernels", [checked, fast])


def ints(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.int32) * 7 % 31


def floats(n: int) -> np.ndarray:
    """Integers, so that sums are exact in any order."""
    return np.random.default_rng(n).integers(-9, 10, n).astype(np.float32)


def error(gpu: Emulator, *call) -> str:
    """Call a launcher that must fail, and return the report, checked for its fixed parts."""
    with pytest.raises(EmulatorError) as caught:
        gpu.call(*call)
    text = str(caught.value)
    assert re.match(r"kernel .+, block \(\d+, \d+, \d+\), thread \(\d+, \d+, \d+\): ", text), text
    assert re.search(r"\(\w+\.cu:\d+\)", text), text
    return text
