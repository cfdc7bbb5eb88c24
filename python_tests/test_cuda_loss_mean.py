"""How blocks hand over their sums of losses without a fence (csrc/cuda/loss_mean.cuh)."""

from pathlib import Path

import numpy as np
import pytest
from emulator.harness import Emulator, compile_kernels, compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

HERE, BLOCKS = Path(__file__).parent, 3


def wait(sums, block, seed):
    """What one thread finds at once, and in the end, of the sums that another leaves."""
    kernels = compile_kernels([HERE / "cuda_loss_mean.cu"])
    with Emulator(kernels, seed=seed, switch_probability=0.5) as gpu:
        partials = gpu.array(np.full((BLOCKS, 2), -1, np.int64))
        got = gpu.output(3, np.float64)
        gpu.call("launch_wait", partials, gpu.input(sums), block, got)
        return got.get(), partials.get()


@pytest.mark.parametrize("sums", [(1.5, 2.0), (0.0, 0.0), (np.inf, 3.0), (-1.0, np.nan)])
def test_sums_that_are_left_later_are_waited_for(sums):
    at_once = set()
    for seed in range(20):
        got, partials = wait(np.array(sums), 1, seed)
        np.testing.assert_array_equal(got[1:], sums)
        at_once.add(got[0])
        assert (partials[[0, 2]] == -1).all()
    assert at_once == {0.0, 1.0}  # some seeds let the reader go first


def test_no_nan_is_taken_for_what_is_not_there():
    every_bit = np.full(2, -1, np.int64).view(np.float64)
    got, partials = wait(every_bit, 2, seed=0)
    assert np.isnan(got[1:]).all()
    assert (partials[2] != -1).all()
