"""The CUDA emulator proves itself: blocks that run interleaved, and kernels that do not end."""

from __future__ import annotations

import re
from ctypes import c_double, c_int, c_uint64

import numpy as np
import pytest

from emulator.build import load_runtime
from emulator.harness import Emulator, EmulatorError
from emulator.proof import checked, each_mode, each_seed, error, fast, floats, needs_compiler

pytestmark = needs_compiler

each_interleave = pytest.mark.parametrize("interleave", [2, 3, 16])


def zeros(n=1, dtype=np.uint32):
    return np.zeros(n, dtype)


class TestInterleavedBlocks:
    """Kernels that blocks one after another run correctly give the same when interleaved."""

    @each_mode
    @each_interleave
    @each_seed
    def test_static_shared_memory(self, kernels, interleave, seed):
        n, blocks = 5000, 7
        with Emulator(kernels(), seed=seed, interleave=interleave) as gpu:
            x, ticket = gpu.input(floats(n)), gpu.array(zeros())
            partial, y = gpu.output(blocks, np.float32), gpu.output(1, np.float32)
            for _ in range(2):
                gpu.call("sum_float", x, partial, ticket, y, n, blocks, 96)
                assert y.get()[0] == x.get().sum()

    @each_mode
    @each_interleave
    @each_seed
    def test_dynamic_shared_memory(self, kernels, interleave, seed):
        with Emulator(kernels(), seed=seed, interleave=interleave) as gpu:
            x, y = gpu.input(floats(5 * 128)), gpu.output(5, np.float32)
            gpu.call("launch_tree_sum", x, y, 5, 0)
            np.testing.assert_array_equal(y.get(), x.get().reshape(5, 128).sum(1))
            assert "divergent barrier" in error(gpu, "launch_tree_sum", x, y, 5, 1)

    @each_seed
    def test_races_within_a_block(self, seed):
        with Emulator(checked(), seed=seed, interleave=4) as gpu:
            x, y = gpu.input(floats(64)), gpu.output(3, np.float32)
            gpu.call("launch_accumulate", x, y, 64, 0)
            np.testing.assert_array_equal(y.get(), x.get().sum())
            assert "uninitialised: reads 4" in error(gpu, "launch_accumulate", x, y, 64, 1)

    def test_threads_of_several_blocks_take_turns(self):
        """Blocks that wait for each other get on, and one after another they would not."""
        for seed in range(4):
            with Emulator(checked(), seed=seed, interleave=2) as gpu:
                value, y = gpu.output(1, np.int32), gpu.output(1, np.int32)
                flag = gpu.array(zeros(1, np.int32))
                gpu.call("launch_hand_over", value, flag, y, 0)
                assert (y.get()[0], flag.get()[0]) == (42, 0)

    def test_same_seed_same_run(self):
        reports = set()
        for _ in range(2):
            with Emulator(checked(), seed=5, interleave=3) as gpu:
                reports.add(error(gpu, "launch_count_blocks", gpu.array(zeros()), 9, 1))
        assert len(reports) == 1

    def test_more_threads_than_there_are_stacks(self):
        with Emulator(checked(), interleave=17) as gpu:
            report = "interleave=17 blocks of 1024 threads are more than 16384 threads"
            with pytest.raises(EmulatorError, match=report):
                gpu.call("launch_nothing", 17, 1024, 0, 0)


class TestRacesBetweenBlocks:
    FORMS = (
        *("fence_of_one", "fence_of_all"),
        *("early_ticket", "no_fence", "no_barrier", "no_barrier_all"),
    )

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize(("blocks", "threads"), [(2, 32), (9, 40)])
    @each_interleave
    @each_seed
    def test_last_block(self, form, blocks, threads, interleave, seed):
        n = blocks * threads
        with Emulator(checked(), seed=seed, interleave=interleave) as gpu:
            x, ticket = gpu.input(floats(n)), gpu.array(zeros(), name="ticket")
            values, y = gpu.output(n, np.float32, name="values"), gpu.output(1, np.float32)
            call = "launch_sum_of_blocks", x, values, ticket, y, blocks, threads
            number = self.FORMS.index(form)
            if form.startswith("fence"):
                for _ in range(2):
                    gpu.call(*call, number)
                    assert (y.get()[0], ticket.get()[0]) == (2 * x.get().sum(), 0)
                return
            text = error(gpu, *call, number)
            assert re.search(r"race between blocks: .* of array values .*, which block", text)
            if form in ("no_fence", "no_barrier"):
                assert "reads 4 bytes" in text
                assert text.endswith("with no __threadfence after it")

    @each_interleave
    @each_seed
    def test_syncwarp_before_the_fence(self, interleave, seed):
        n = 5 * 64
        with Emulator(checked(), seed=seed, interleave=interleave) as gpu:
            values, y = gpu.output(n, np.float32), gpu.output(1, np.float32)
            gpu.call("launch_sum_of_warps", values, gpu.array(zeros()), y, 0)
            assert y.get()[0] == n * (n - 1) // 2
            text = error(gpu, "launch_sum_of_warps", values, gpu.array(zeros()), y, 1)
            assert "with no __threadfence after it" in text

    @each_interleave
    @each_seed
    def test_fence_publishes_by_barriers_alone(self, interleave, seed):
        with Emulator(checked(), seed=seed, interleave=interleave) as gpu:
            values, y = gpu.output(200, np.float32), gpu.output(1, np.float32)
            gpu.call("launch_sum_of_counted", values, gpu.array(zeros()), y, 0)
            assert y.get()[0] == 200
            text = error(gpu, "launch_sum_of_counted", values, gpu.array(zeros()), y, 1)
            assert text.endswith("with no __threadfence after it")

    @each_interleave
    @each_seed
    def test_counter(self, interleave, seed):
        with Emulator(checked(), seed=seed, interleave=interleave) as gpu:
            count = gpu.array(zeros(), name="count")
            gpu.call("launch_count_blocks", count, 9, 0)
            assert count.get()[0] == 9
            text = error(gpu, "launch_count_blocks", count, 9, 1)
            assert re.search(r"race between blocks: (reads|writes) 4 bytes at byte 0 of arr", text)

    @each_interleave
    @each_seed
    def test_plain_write_and_atomics(self, interleave, seed):
        with Emulator(checked(), seed=seed, interleave=interleave) as gpu:
            text = error(gpu, "launch_reset_and_count", gpu.array(zeros()), 4)
            assert "race between blocks" in text
            assert "atomically updates" in text

    @each_interleave
    @each_seed
    def test_two_blocks_write_one_byte(self, interleave, seed):
        with Emulator(checked(), seed=seed, interleave=interleave) as gpu:
            y = gpu.output(9, np.uint8)
            gpu.call("launch_write_elements", y, 9, 0)
            np.testing.assert_array_equal(y.get(), 7)
            text = error(gpu, "launch_write_elements", y, 9, 1)
            assert re.search(r"writes 1 bytes at byte 7 .*, which block .* writes", text)

    @each_seed
    def test_flag_without_fence(self, seed):
        with Emulator(checked(), seed=seed, interleave=2) as gpu:
            value, y = gpu.output(1, np.int32, name="value"), gpu.output(1, np.int32)
            text = error(gpu, "launch_hand_over", value, gpu.array(zeros(1, np.int32)), y, 1)
            assert "reads 4 bytes at byte 0 of array value" in text
            assert "with no __threadfence after it" in text

    @each_seed
    def test_barrier_of_the_grid(self, seed):
        x = np.arange(5, dtype=np.int32)
        with Emulator(checked(), seed=seed, interleave=5) as gpu:
            y = gpu.array(x, name="x")
            gpu.call("launch_rotate_twice", y, gpu.array(zeros()), 5, 0)
            np.testing.assert_array_equal(y.get(), np.roll(x, -2))
            text = error(gpu, "launch_rotate_twice", y, gpu.array(zeros()), 5, 1)
            assert re.search(r"race between blocks: writes 4 bytes .* array x .* reads", text)

    @each_seed
    def test_barrier_of_more_blocks_than_are_resident(self, seed):
        with Emulator(checked(), seed=seed, interleave=4, max_work=100_000) as gpu:
            y = gpu.array(np.arange(5, dtype=np.int32))
            text = error(gpu, "launch_rotate_twice", y, gpu.array(zeros()), 5, 0)
            assert "still running after 100000 accesses" in text


class TestLoops:
    LOOPS = ("empty", "flag", "atomic", "fence", "shuffle", "arithmetic")

    def loop(self, kernels, name, **limits):
        with Emulator(kernels(), **limits) as gpu:
            arrays = gpu.array(zeros(1, np.int32)), gpu.array(zeros()), gpu.output(1, np.float32)
            text = error(gpu, "launch_loop_for_ever", *arrays, self.LOOPS.index(name))
        assert "block (1, 0, 0), thread (2, 0, 0): still running after" in text
        assert "(loops.cu:" in text
        return text

    @each_mode
    @pytest.mark.parametrize("name", LOOPS)
    @pytest.mark.parametrize("interleave", [1, 2])
    def test_time(self, kernels, name, interleave):
        text = self.loop(kernels, name, interleave=interleave, max_seconds=0.05)
        assert "still running after 0.05 s of CPU time" in text

    @pytest.mark.parametrize("name", ["flag", "atomic", "fence", "shuffle", "arithmetic"])
    @pytest.mark.parametrize("interleave", [1, 2])
    def test_work_of_checked_kernels(self, name, interleave):
        text = self.loop(checked, name, interleave=interleave, max_work=1000)
        assert "still running after 1000 accesses" in text

    @pytest.mark.parametrize("name", ["atomic", "fence", "shuffle"])
    def test_work_of_others(self, name):
        self.loop(fast, name, max_work=1000)

    @each_mode
    def test_barriers(self, kernels):
        with Emulator(kernels(), max_work=1000) as gpu:
            assert "still running after 1000" in error(gpu, "launch_meet_for_ever")

    def test_each_launch_has_its_own_limit(self):
        with Emulator(checked(), max_work=1000) as gpu:
            count = gpu.array(zeros())
            for _ in range(10):
                gpu.call("launch_count_blocks", count, 9, 0)  # 9 * 32 threads read a parameter
            with pytest.raises(EmulatorError, match="still running after 1000"):
                gpu.call("launch_count_blocks", count, 90, 0)

    def test_configure_resets_all_settings(self):
        with Emulator(checked(), interleave=2, max_work=1) as gpu:
            load_runtime().cuda_emulator_configure(c_uint64(0), c_double(0), c_int(1))
            count = gpu.array(zeros())
            gpu.call("launch_count_blocks", count, 9, 1)  # a race, which one by one does not show
            assert count.get()[0] == 9
