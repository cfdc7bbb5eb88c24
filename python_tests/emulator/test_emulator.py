"""The CUDA emulator proves itself: it runs correct kernels and catches their broken twins.

The kernels are in emulator/kernels. Each pair differs in one defect, chosen by a parameter. Here:
memory and launches; threads are in test_emulator_threads.py.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from emulator.harness import CompileError, Emulator, EmulatorError, compile_kernels
from emulator.launches import recording
from emulator.proof import (
    KERNELS,
    checked,
    each_mode,
    each_seed,
    error,
    fast,
    floats,
    ints,
    needs_compiler,
)

pytestmark = needs_compiler


class TestBounds:
    @pytest.mark.parametrize("n", [1, 31, 32, 33, 127, 128, 1003])
    @each_seed
    def test_tail(self, n, seed):
        with Emulator(checked(), seed=seed) as gpu:
            x, y = gpu.input(floats(n), name="x"), gpu.output(n, np.float32, name="y")
            gpu.call("launch_copy", x, y, n, 0, 0)
            np.testing.assert_array_equal(y.get(), x.get())
            read = error(gpu, "launch_copy", x, y, n, 1, 0)
            assert f"read of 4 bytes 0 bytes past the end of array x ({4 * n} bytes)" in read
            before = error(gpu, "launch_copy", x, y, n, -1, 0)
            assert "read of 4 bytes 4 bytes before the start of array x" in before
            write = error(gpu, "launch_copy", x, y, n, 0, 1)
            assert "write of 4 bytes 0 bytes past the end of array y" in write

    @each_mode
    def test_empty_arrays(self, kernels):
        with Emulator(kernels()) as gpu:
            x, y = gpu.input(floats(0)), gpu.output(0, np.float32)
            gpu.call("launch_copy", x, y, 0, 0, 0)
            assert y.get().size == 0

    def test_input_is_not_written(self):
        with Emulator(checked()) as gpu:
            x = gpu.input(floats(100), name="x")
            text = error(gpu, "launch_copy", x, x, 100, 0, 0)
            assert "read-only: write of 4 bytes at byte" in text

    def test_uninstrumented_code_faults(self):
        with Emulator(fast()) as gpu:
            x, y = gpu.input(floats(128), name="x"), gpu.output(128, np.float32, name="y")
            gpu.call("launch_copy", x, y, 128, 0, 0)
            text = error(gpu, "launch_copy", x, y, 128, 4, 0)
            assert "invalid access 0 bytes past the end of array x (512 bytes)" in text
            assert "invalid access" in error(gpu, "launch_copy", x, x, 128, 0, 0)
            assert "null pointer" in error(gpu, "launch_copy", None, y, 1, 0, 0)

    def test_uninstrumented_code_leaves_traces(self):
        with Emulator(fast()) as gpu:
            x, y = gpu.input(floats(127)), gpu.output(127, np.float32, name="y")
            with pytest.raises(EmulatorError, match="wrote outside array y"):
                gpu.call("launch_copy", x, y, 127, 0, 1)

    @each_seed
    def test_dynamic_shared_overrun(self, seed):
        with Emulator(checked(), seed=seed) as gpu:
            x, y = gpu.input(floats(300)), gpu.output(300, np.float32)
            gpu.call("launch_copy_shared", x, y, 300, 0)
            np.testing.assert_array_equal(y.get(), x.get())
            text = error(gpu, "launch_copy_shared", x, y, 300, -1)
            assert "write of 4 bytes 0 bytes past the end of dynamic shared memory (508 by" in text

    def test_index_of_fixed_array(self):
        with Emulator(checked()) as gpu:
            index, y = gpu.array(ints(32) % 8), gpu.output(32, np.int32)
            gpu.call("launch_fixed_array", index, y, 32)
            np.testing.assert_array_equal(y.get(), index.get())
            wrong = gpu.array(ints(32) % 9)
            text = error(gpu, "launch_fixed_array", wrong, y, 32)
            assert "index outside an array of fixed size" in text

    def test_misaligned_vector(self):
        with Emulator(checked()) as gpu:
            x, y = gpu.input(floats(40)), gpu.output(32, np.float32)
            gpu.call("launch_copy_vectors", x, y, 32, 4)
            np.testing.assert_array_equal(y.get(), x.get()[4:36])
            assert "misaligned" in error(gpu, "launch_copy_vectors", x, y, 32, 1)

    def test_vector_across_the_end(self):
        with Emulator(checked()) as gpu:
            x, y = gpu.input(floats(30), name="x"), gpu.output(32, np.float32)
            text = error(gpu, "launch_copy_vectors", x, y, 32, 0)
            assert "read of 16 bytes at byte 112 of array x (120 bytes)" in text

    def test_overflowing_offset(self):
        with Emulator(checked()) as gpu:
            sizes, y = gpu.input(np.array([65536, 40000], np.int32)), gpu.output(1, np.int64)
            gpu.call("launch_offset_product", sizes, y, 1)
            assert y.get()[0] == 65536 * 40000
            assert "signed integer overflow" in error(gpu, "launch_offset_product", sizes, y, 0)

    @each_mode
    def test_stack_overflow(self, kernels):
        with Emulator(kernels()) as gpu:
            y = gpu.output(40, np.int64)
            gpu.call("launch_use_stack", y, 40, 10)
            np.testing.assert_array_equal(y.get(), 10)
            with pytest.raises(EmulatorError, match=r"kernel use_stack.*: stack overflow"):
                gpu.call("launch_use_stack", y, 40, 1000)


class TestRaces:
    @each_seed
    def test_read_write(self, seed):
        with Emulator(checked(), seed=seed) as gpu:
            x, y = gpu.input(ints(96)), gpu.output(96, np.int32)
            gpu.call("launch_prefix_sum", x, y, 96, 0)
            np.testing.assert_array_equal(y.get(), np.cumsum(x.get()))
            text = error(gpu, "launch_prefix_sum", x, y, 96, 1)
            assert "race on dynamic shared memory" in text
            assert "with no barrier between" in text

    @each_seed
    def test_write_write(self, seed):
        with Emulator(checked(), seed=seed) as gpu:
            y = gpu.output(96, np.int32)
            gpu.call("launch_warp_numbers", y, 96, 0)
            np.testing.assert_array_equal(y.get(), np.arange(96) // 32)
            text = error(gpu, "launch_warp_numbers", y, 96, 1)
            assert re.search(r"writes 4 bytes at byte \d+ .* which thread .* writes", text)

    @pytest.mark.parametrize("group", [2, 8, 16, 32])
    @each_seed
    def test_syncwarp_orders_its_lanes_only(self, group, seed):
        with Emulator(checked(), seed=seed, check_initialised=False) as gpu:
            x, y = gpu.input(ints(64)), gpu.output(64, np.int32)
            gpu.call("launch_exchange", x, y, group, 0)
            np.testing.assert_array_equal(y.get(), x.get()[np.arange(64) ^ group // 2] + 2)
            assert "race" in error(gpu, "launch_exchange", x, y, group, 1)

    @each_seed
    def test_atomics_do_not_race(self, seed):
        with Emulator(checked(), seed=seed) as gpu:
            x, y = gpu.input(ints(128) % 4), gpu.output(4, np.uint32)
            gpu.call("launch_histogram", x, y, 128, 0)
            np.testing.assert_array_equal(y.get(), np.bincount(x.get()))
            assert "race on static shared" in error(gpu, "launch_histogram", x, y, 128, 1)

    @each_seed
    def test_switches_between_accesses(self, seed):
        with Emulator(checked(), seed=seed, switch_probability=0.2) as gpu:
            x, y = gpu.input(ints(128) % 4), gpu.output(4, np.uint32)
            gpu.call("launch_histogram", x, y, 128, 0)
            np.testing.assert_array_equal(y.get(), np.bincount(x.get()))

    @each_seed
    def test_neighbouring_bytes(self, seed):
        with Emulator(checked(), seed=seed) as gpu:
            x, y = gpu.input(np.arange(64, dtype=np.uint8)), gpu.output(64, np.uint8)
            gpu.call("launch_bytes", x, y)
            np.testing.assert_array_equal(y.get(), x.get())

    @each_seed
    def test_uninitialised_shared_memory(self, seed):
        with Emulator(checked(), seed=seed) as gpu:
            x, y = gpu.input(floats(64)), gpu.output(3, np.float32)
            gpu.call("launch_accumulate", x, y, 64, 0)
            np.testing.assert_array_equal(y.get(), x.get().sum())
            assert "uninitialised: reads 4" in error(gpu, "launch_accumulate", x, y, 64, 1)

    @each_mode
    def test_poison_shows_up(self, kernels):
        with Emulator(kernels(), check_initialised=False) as gpu:
            x, y = gpu.input(floats(64)), gpu.output(3, np.float32)
            gpu.call("launch_accumulate", x, y, 64, 1)
            assert np.isnan(y.get()).all()


class TestLaunches:
    @pytest.mark.parametrize(
        ("grid", "block", "shared", "limit", "report"),
        [
            (0, 32, 0, 0, r"invalid grid \(0, 1, 1\)"),
            (1, 0, 0, 0, r"invalid block \(0, 1, 1\)"),
            (1, 1025, 0, 0, r"invalid block \(1025, 1, 1\)"),
            (1, 32, 50000, 0, "50000 bytes of dynamic shared memory, of which 49152 are allowed"),
            (1, 32, 70000, 60000, "of which 60000 are allowed"),
        ],
    )
    @each_mode
    def test_invalid(self, kernels, grid, block, shared, limit, report):
        with Emulator(kernels()) as gpu, pytest.raises(EmulatorError, match=report):
            gpu.call("launch_nothing", grid, block, shared, limit)

    @each_mode
    def test_valid(self, kernels):
        with Emulator(kernels()) as gpu:
            gpu.call("launch_nothing", 3, 1024, 60000, 65536)

    def test_bindings(self):
        kernels = compile_kernels(
            [KERNELS / "reductions.cu"],
            bindings='extern "C" int64_t blocks(int64_t n) { return (n + 255) / 256; }',
        )
        with Emulator(kernels) as gpu:
            assert gpu.call("blocks", 257) == 2

    def test_host_arithmetic_overflow(self):
        kernels = compile_kernels(
            [], bindings='#include <stdint.h>\nextern "C" int f(int64_t n) { return int(n) * 2; }'
        )
        with Emulator(kernels) as gpu:
            gpu.call("f", 2**30 - 1)
            with pytest.raises(EmulatorError, match="host code: signed integer overflow"):
                gpu.call("f", 2**30)

    def test_compiler_errors_are_shown(self, tmp_path):
        source = tmp_path / "wrong.cu"
        source.write_text('#include "common/launch.h"\n__global__ void k() { undeclared(); }\n')
        with pytest.raises(CompileError, match="undeclared"):
            compile_kernels([source])


class TestRecording:
    def test_sectors(self):
        """A thousand floats are 125 sectors of 32 bytes, however many threads share one."""
        n = 1000
        with Emulator(checked()) as gpu:
            x, y = gpu.input(floats(n), name="x"), gpu.output(n, np.float32, name="y")
            with recording() as launches:
                gpu.call("launch_copy", x, y, n, 0, 0)
            np.testing.assert_array_equal(y.get(), x.get())
        (launch,) = launches
        assert launch.blocks * launch.threads >= n
        moved = {traffic.array: traffic for traffic in launch.traffic}
        assert (moved["x"].writes, moved["y"].writes) == (False, True)
        for traffic in moved.values():
            assert traffic.accessed == 4 * n
            assert traffic.requested == traffic.block == traffic.near == traffic.launch == 32 * 125

    def test_launches_alone(self):
        with Emulator(checked()) as gpu:
            x, y = gpu.input(floats(8), name="x"), gpu.output(8, np.float32, name="y")
            with recording(traffic=False) as launches:
                gpu.call("launch_copy", x, y, 10**6, 0, 0)
            assert np.isnan(y.get()).all()
        assert [launch.traffic for launch in launches] == [[]]
