"""The emulator watches memory that operators have from torch: broken calls are caught."""

from __future__ import annotations

import ctypes

import pytest
import torch
from cases import normal

from emulator.build import load_runtime
from emulator.harness import Emulator, EmulatorError
from emulator.launches import recording
from emulator.operators import Operators, emulated
from emulator.proof import checked, needs_compiler

pytestmark = needs_compiler


def call(name, *arguments):
    """A function of the kernels' library; tensors are passed as pointers."""
    checked()[name](
        *(
            ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_int64(a)
            for a in arguments
        )
    )


def copy(x, read_off, write_extra, to_x):
    """Do as torch glue does: allocate, hand memory over, and launch a kernel."""
    y = torch.empty(x.numel())
    call("allocate", y, y.nbytes)
    call("hand_over", y, y.nbytes)
    call("hand_over", x, x.nbytes)
    call("launch_copy", x, x if to_x else y, x.numel(), read_off, write_extra)
    return y


@pytest.fixture(scope="module")
def library():
    made = torch.library.Library("ptd_broken", "DEF")
    made.define("copy(Tensor x, int read_off, int write_extra, bool to_x) -> Tensor y")
    made.impl("copy", copy, "CPU")
    yield torch.ops.ptd_broken
    made._destroy()


@pytest.fixture
def ops(library):
    with Emulator() as gpu:
        load_runtime().cuda_emulator_watch_borrowed(1)
        yield Operators(library, gpu)


def test_correct_call(ops):
    x = torch.arange(100.0)
    with recording() as launches:
        assert torch.equal(ops.copy(x, 0, 0, False), x)
    assert ops.arrays == {"x": 400, "y": 400}
    assert {(t.array, t.writes): t.launch for t in launches[0].traffic} == {
        ("x", False): 416,
        ("y", True): 416,
    }


def test_accesses_outside(ops):
    x = torch.arange(300.0)[100:200]
    for off, place in ((1, "0 bytes past the end"), (-1, "4 bytes before the start")):
        with pytest.raises(EmulatorError, match=rf"read of 4 bytes {place} of array x \(400 bytes"):
            ops.copy(x, off, 0, False)
    with pytest.raises(EmulatorError, match="out of bounds: write of 4 bytes 0 bytes past the end"):
        ops.copy(x, 0, 1, False)
    assert torch.equal(ops.copy(x, 0, 0, False), x)


def test_input_is_not_written(ops):
    with pytest.raises(EmulatorError, match=r"read-only: write of 4 bytes at byte .* of array x"):
        ops.copy(torch.arange(100.0), 0, 0, True)


def test_fresh_memory_is_nan(ops):
    x = torch.arange(100.0)
    assert ops.copy(x, 0, -1, False).isnan().tolist() == [False] * 99 + [True]


def test_memory_of_a_tensor_that_has_gone(ops):
    """It no longer counts as handed over, and may be written once it is allocated again."""
    memory = torch.zeros(100)
    call("hand_over", memory, 400)
    call("allocate", memory[50:], 200)
    call("hand_over", memory[50:], 200)
    call("launch_copy", memory[50:], memory[50:], 50, 0, 0)
    ops._gpu.raise_error()
    call("launch_copy", memory, memory[50:], 50, 0, 0)
    with pytest.raises(EmulatorError, match=r"out of bounds: read of 4 bytes .* before the start"):
        ops._gpu.raise_error()
    load_runtime().cuda_emulator_forget_borrowed()


@pytest.mark.parametrize("traffic", [False, True])
def test_memory_allocated_again_is_another_array(library, ops, traffic):
    """Scratch memory that the allocator gives out twice, to a smaller array the second time."""
    scratch = torch.empty(100)

    def twice(x, *_):
        for size in (100, 50):
            call("allocate", scratch, 4 * size)
            call("hand_over", scratch, 4 * size)
            call("hand_over", x, x.nbytes)
            call("launch_copy", x, scratch, size, 0, 0)
        return scratch[:50]

    twice.default = library.copy.default
    with recording(traffic=traffic) as launches:
        ops._call(twice, torch.arange(100.0), 0, 0, False)
    assert ops.arrays == {"x": 400, "scratch 1": 400, "y": 200}
    if traffic:
        written = [t.array for launch in launches for t in launch.traffic if t.writes]
        assert written == ["scratch 1", "y"]


def test_errors_of_the_operators_themselves():
    """An argument that is rejected is not the emulator's error, and nothing is left of the call."""
    x = normal(3, 5)
    with emulated() as ops:
        with pytest.raises(RuntimeError, match="x must be float32 or float64"):
            ops.simplex_projection(x.half())
        assert torch.allclose(ops.simplex_projection(x).sum(-1), torch.ones(3))
        assert ops.arrays.keys() == {"x", "result"}


def test_report_instead_of_the_error_of_a_launch(library):
    """A kernel's error ends the operator with the emulator's report, whatever the glue reports."""

    def failing(*given):
        copy(*given)
        raise RuntimeError("a CUDA kernel could not be launched")

    failing.default = library.copy.default
    with Emulator() as gpu:
        load_runtime().cuda_emulator_watch_borrowed(1)
        with pytest.raises(EmulatorError, match="kernel copy"):
            Operators(None, gpu)._call(failing, torch.zeros(9), 1, 0, False)
