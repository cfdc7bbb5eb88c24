"""How blocks hand over their sums of losses without a fence (csrc/cuda/loss_mean.cuh)."""

import functools
import itertools
from pathlib import Path

import numpy as np
import pytest
from emulator.harness import Emulator, compile_kernels, compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

kernels = functools.cache(
    lambda: compile_kernels([Path(__file__).parent / "cuda_loss_mean.cu"]),
)


def not_left(blocks):
    return np.full((blocks, 2), -1, np.int64)


def add_up(sums, grid, last, seed, mean=False):
    """The bits of what the block with the last ticket makes of sums that others leave meanwhile."""
    with Emulator(kernels(), seed=seed, switch_probability=0.5) as gpu:
        partials, result = gpu.array(not_left(len(sums))), gpu.output(2, np.float64)
        gpu.call("launch_add_up", partials, gpu.input(sums), *grid, last, int(mean), result)
        return result.get().view(np.int64)


# All that are read at once, and more; a grid of two dimensions.
@pytest.mark.parametrize("grid", [(2, 1), (5, 7), (129, 1), (300, 1)])
def test_last_block_waits_for_all(grid):
    rng = np.random.default_rng(0)
    blocks = grid[0] * grid[1]
    sums = rng.standard_normal((blocks, 2)) * 10.0 ** rng.integers(-8, 8, (blocks, 2))
    found = [add_up(sums, grid, int(rng.integers(blocks)), seed) for seed in range(8)]
    np.testing.assert_allclose(found[0].view(np.float64), sums.sum(0), rtol=1e-9, atol=1e-3)
    for bits in found:
        np.testing.assert_array_equal(bits, found[0])


def test_order_of_additions_is_the_same_whichever_block_is_last():
    # Three of one thread, among those it reads first or after them; 1 is lost unless it comes last.
    for start in (0, 128):
        blocks = start + np.array([0, 32, 64])
        for order in itertools.permutations([1, 1e16, -1e16]):
            sums = np.zeros((300, 2))
            sums[blocks] = np.array(order)[:, None]
            found = {add_up(sums, (300, 1), last, 0).tobytes() for last in (*blocks, 7)}
            assert len(found) == 1


def test_mean_is_the_sum_over_the_weight():
    rng = np.random.default_rng(0)
    for seed in range(20):
        sums = rng.standard_normal((35, 2)) * 10.0 ** rng.integers(-150, 150, (1, 2))
        loss, weight = add_up(sums, (7, 5), 17, seed).view(np.float64)
        found = add_up(sums, (7, 5), 17, seed, mean=True).view(np.float64)
        np.testing.assert_allclose(found, [loss / weight, weight], rtol=2e-16)


@pytest.mark.parametrize("weight", [0.0, 3.0, 1e-310, np.inf, np.nan])
@pytest.mark.parametrize("loss", [0.0, -2.0, 1e-310, np.inf, np.nan])
@pytest.mark.parametrize("blocks", [1, 2])
def test_mean_of_what_is_no_number(blocks, loss, weight):
    sums = np.zeros((blocks, 2))
    sums[0] = loss, weight
    with np.errstate(all="ignore"):
        expected = [np.divide(loss, weight), weight]
    for last in range(blocks):
        found = add_up(sums, (blocks, 1), last, seed=0, mean=True).view(np.float64)
        np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_bits_of_nan_are_the_same_whichever_block_is_last():
    sums = np.ones((5, 2))
    sums.view(np.int64)[3] = 0x7FF8000000000123
    assert len({add_up(sums, (5, 1), last, seed=0).tobytes() for last in range(5)}) == 1


def test_bits_of_a_nan_that_comes_of_infinities():
    sums = np.zeros((40, 2))
    sums[[0, 32, 1]] = [[np.inf], [-np.inf], [np.nan]]
    for mean in (False, True):
        found = {add_up(sums, (40, 1), last, 0, mean).tobytes() for last in (0, 1, 2, 32, 33)}
        assert len(found) == 1


@pytest.mark.parametrize("blocks", [2, 4, 9])  # all that a thread reads at once, and more
@pytest.mark.parametrize("last", [(1.5, 2.0), (0.0, 0.0), (np.inf, 3.0), (-1.0, np.nan)])
def test_sums_that_are_left_later_are_waited_for(last, blocks):
    sums = np.arange(2.0 * blocks).reshape(blocks, 2)
    sums[-1] = last
    at_once = set()
    for seed in range(20):
        with Emulator(kernels(), seed=seed, switch_probability=0.5) as gpu:
            partials, got = gpu.array(not_left(blocks)), gpu.output(3, np.float64)
            gpu.call("launch_wait", partials, gpu.input(sums), blocks, got)
            left, *found = got.get()
            np.testing.assert_array_equal(found, sums.sum(0))
            at_once.add(left)
            assert (partials.get()[0] == -1).all()
    assert at_once == {0.0, 1.0}  # some seeds let the reader go first


def test_no_nan_is_taken_for_what_is_not_there():
    with Emulator(kernels()) as gpu:
        partials = gpu.array(not_left(2))
        gpu.call("launch_leave", partials, gpu.input(np.full(2, -1, np.int64).view(np.float64)))
        left, other = partials.get()
        assert (left != -1).all()
        assert np.isnan(left.view(np.float64)).all()
        assert (other == -1).all()
