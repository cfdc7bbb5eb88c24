"""The CUDA emulator proves itself: barriers, shuffles and whole kernels."""

from __future__ import annotations

import re

import numpy as np
import pytest

from emulator.harness import Emulator
from emulator.proof import checked, each_mode, each_seed, error, fast, floats, ints, needs_compiler

pytestmark = needs_compiler


class TestBarriers:
    @each_seed
    def test_missing_barrier(self, seed):
        with Emulator(checked(), seed=seed, check_initialised=False) as gpu:
            x, y = gpu.input(ints(256)), gpu.output(256, np.int32)
            gpu.call("launch_reverse", x, y, 256, 0)
            np.testing.assert_array_equal(y.get(), x.get()[::-1])
            assert "race on static shared" in error(gpu, "launch_reverse", x, y, 256, 1)

    @each_seed
    def test_missing_barrier_shows_in_the_values_too(self, seed):
        with Emulator(fast(), seed=seed) as gpu:
            x, y = gpu.input(ints(256)), gpu.output(256, np.int32)
            gpu.call("launch_reverse", x, y, 256, 1)
            assert (y.get() == -1).any()  # the poison of shared memory

    @pytest.mark.parametrize("n", [33, 50, 63])
    @each_mode
    @each_seed
    def test_exit_before_barrier(self, kernels, n, seed):
        with Emulator(kernels(), seed=seed) as gpu:
            x = gpu.array(ints(n))
            gpu.call("launch_shift", x, n, 0)
            np.testing.assert_array_equal(x.get(), np.roll(ints(n), -1))
            text = error(gpu, "launch_shift", x, n, 1)
            assert "divergent barrier: waits at __syncthreads" in text
            assert "has exited" in text

    @each_mode
    @each_seed
    def test_two_barriers_for_one(self, kernels, seed):
        with Emulator(kernels(), seed=seed) as gpu:
            y = gpu.output(64, np.int32)
            gpu.call("launch_meet", y, 0)
            np.testing.assert_array_equal(y.get(), np.repeat([2, 1], 32))
            text = error(gpu, "launch_meet", y, 1)
            assert len(set(re.findall(r"__syncthreads \(barriers\.cu:(\d+)\)", text))) == 2

    @each_mode
    @each_seed
    def test_barrier_of_some_threads(self, kernels, seed):
        with Emulator(kernels(), seed=seed) as gpu:
            x, y = gpu.input(floats(5 * 128)), gpu.output(5, np.float32)
            gpu.call("launch_tree_sum", x, y, 5, 0)
            np.testing.assert_array_equal(y.get(), x.get().reshape(5, 128).sum(1))
            assert "divergent barrier" in error(gpu, "launch_tree_sum", x, y, 5, 1)


class TestWarps:
    @pytest.mark.parametrize("width", [8, 16, 32])
    @pytest.mark.parametrize(
        ("name", "dtype"),
        [("float", np.float32), ("double", np.float64), ("int64", np.int64)],
    )
    @each_mode
    @each_seed
    def test_segment_sums(self, kernels, name, dtype, width, seed):
        with Emulator(kernels(), seed=seed) as gpu:
            x, y = gpu.input(floats(64).astype(dtype) * 3), gpu.output(64, dtype)
            gpu.call(f"segment_sum_{name}", x, y, width)
            sums = x.get().reshape(-1, width).sum(1)
            np.testing.assert_array_equal(y.get(), np.repeat(sums, width))

    @pytest.mark.parametrize("width", [4, 8, 32])
    @pytest.mark.parametrize("operand", [0, 1, 3, 5, 17, 31])
    @each_mode
    def test_shuffles_as_documented(self, kernels, operand, width):
        lane = np.arange(32)
        first = lane // width * width
        down, up, xor = lane + operand, lane - operand, lane ^ operand
        expected = np.stack(
            [
                first + operand % width,
                np.where(up < first, lane, up),
                np.where(down >= first + width, lane, down),
                np.where(xor >= first + width, lane, xor),
            ]
        )
        with Emulator(kernels()) as gpu:
            x, y = gpu.input(lane.astype(np.uint32)), gpu.output((4, 32), np.uint32)
            gpu.call("launch_shuffles", x, y, operand, width)
            np.testing.assert_array_equal(y.get(), expected)

    @each_mode
    def test_width_must_be_a_power_of_two(self, kernels):
        with Emulator(kernels()) as gpu:
            x, y = gpu.input(np.zeros(32, np.uint32)), gpu.output((4, 32), np.uint32)
            assert "has width 12" in error(gpu, "launch_shuffles", x, y, 1, 12)

    @each_mode
    @each_seed
    def test_groups_that_run_apart(self, kernels, seed):
        with Emulator(kernels(), seed=seed) as gpu:
            x, y = gpu.input(ints(32)), gpu.output(32, np.int32)
            gpu.call("launch_divergent_groups", x, y, 0)
            sums = x.get().reshape(4, 8).sum(1) * 8 ** np.arange(4)
            np.testing.assert_array_equal(y.get(), np.repeat(sums, 8))
            text = error(gpu, "launch_divergent_groups", x, y, 1)
            assert re.search(r"names lane \d+, which has exited|lanes that do not come", text)

    @each_mode
    @each_seed
    def test_correct_shuffle(self, kernels, seed):
        with Emulator(kernels(), seed=seed) as gpu:
            x, y = gpu.input(floats(32)), gpu.output(16, np.float32)
            gpu.call("launch_half_sum", x, y, 0)
            np.testing.assert_array_equal(y.get(), x.get().reshape(2, 16).sum(0))

    @pytest.mark.parametrize(
        ("mistake", "report"),
        [
            (1, r"waits for lanes that do not come: lane \d+ has exited|names lane \d+, which has"),
            (2, r"names lane \d+, which has exited|lanes that do not come: lane \d+ has exited"),
            (3, r"does not name the lane itself|reads lane \d+, which the mask does not name"),
            (4, r"reads lane \d+, which the mask does not name"),
            (5, r"reads lane \d+, which the mask does not name"),
            (6, r"lane \d+ waits at __(any|shfl_down)_sync with mask 0xffffffff"),
        ],
        ids=["branch", "exited", "self", "outside", "activemask", "intrinsic"],
    )
    @each_mode
    @each_seed
    def test_wrong_shuffle(self, kernels, mistake, report, seed):
        with Emulator(kernels(), seed=seed) as gpu:
            x, y = gpu.input(floats(32)), gpu.output(16, np.float32)
            assert re.search(report, error(gpu, "launch_half_sum", x, y, mistake))

    @each_mode
    @each_seed
    def test_votes(self, kernels, seed):
        holds = np.array([1] * 16 + [0] * 16 + [0, 1] * 16, np.int32)
        bits = np.array([0xFFFF, 0, 0xAAAA, 0xAAAA0000], np.uint32)
        with Emulator(kernels(), seed=seed) as gpu:
            x, y = gpu.input(holds), gpu.output((2, 64), np.uint32)
            gpu.call("launch_votes", x, y, 64)
            np.testing.assert_array_equal(y.get()[0], np.repeat(bits, 16))
            np.testing.assert_array_equal(y.get()[1], np.repeat([3, 0, 1, 1], 16))

    @each_mode
    def test_vote_names_missing_lanes(self, kernels):
        with Emulator(kernels()) as gpu:
            x, y = gpu.input(ints(40)), gpu.output((2, 40), np.uint32)
            assert "which the block does not have" in error(gpu, "launch_votes", x, y, 40)

    @each_mode
    @each_seed
    def test_syncwarp_passes_over_exited_lanes(self, kernels, seed):
        with Emulator(kernels(), seed=seed) as gpu:
            y = gpu.output(20, np.int32)
            gpu.call("launch_sync_survivors", y)
            np.testing.assert_array_equal(y.get(), 7)


class TestWholeKernels:
    @pytest.mark.parametrize(
        ("n", "blocks", "threads"), [(1, 1, 32), (5000, 7, 96), (9999, 40, 64)]
    )
    @pytest.mark.parametrize(("name", "dtype"), [("float", np.float32), ("double", np.float64)])
    @each_mode
    @each_seed
    def test_last_block_sum(self, kernels, name, dtype, n, blocks, threads, seed):
        with Emulator(kernels(), seed=seed, switch_probability=0.01) as gpu:
            x = gpu.input(floats(n).astype(dtype))
            partial, y = gpu.output(blocks, dtype), gpu.output(1, dtype)
            ticket = gpu.array(np.zeros(1, np.uint32))
            for _ in range(2):  # the second launch finds the ticket as the first did
                gpu.call(f"sum_{name}", x, partial, ticket, y, n, blocks, threads)
                assert y.get()[0] == x.get().sum()
                assert ticket.get()[0] == 0

    def test_same_seed_same_run(self):
        reports = set()
        for _ in range(2):
            with Emulator(checked(), seed=5) as gpu:
                x, y = gpu.input(ints(96)), gpu.output(96, np.int32)
                reports.add(error(gpu, "launch_prefix_sum", x, y, 96, 1))
        assert len(reports) == 1

    @pytest.mark.parametrize("name", ["half", "bfloat16"])
    @each_mode
    def test_sixteen_bit_storage(self, kernels, name):
        torch = pytest.importorskip("torch")
        every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(getattr(torch, name))
        for factor in (1.0, 0.37, 3e-4):
            with Emulator(kernels()) as gpu:
                x, y = gpu.input(every), gpu.output((every.numel(),), every.dtype)
                gpu.call(f"scale_{name}", x, y, every.numel(), factor)
                expected = (every.float() * np.float32(factor)).to(every.dtype)
                torch.testing.assert_close(y.get(), expected, rtol=0, atol=0, equal_nan=True)

    def test_a_million_threads(self):
        n = 1_000_003
        with Emulator(fast()) as gpu:
            x, y = gpu.input(floats(n)), gpu.output(n, np.float32)
            gpu.call("launch_twice", x, y, n)
            np.testing.assert_array_equal(y.get(), 2 * x.get())
