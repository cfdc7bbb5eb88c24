"""The occupancy check finds kernels where they are defined, and what is wrong with them."""

from importlib.util import find_spec

import pytest

from occupancy import nvrtc
from occupancy.run import Usage, usages

HEADER = """
#pragma once
#include "common/types.h"
namespace ptd {
constexpr int twice(int n) { return 2 * n; }

template <class T, class Rule>
__global__ void __launch_bounds__(twice(64), 2) apply(T* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = Rule::of(x[i]);
}
}
"""
LAUNCHER = """
#include "column/apply.cuh"
#ifndef __CUDACC_RTC__
#include <no_header_of_this_name>
#endif
namespace ptd {
template <class T>
struct Doubled { static __device__ T of(T x) { return x + x; } };

__global__ void __launch_bounds__(32) one(float* x) { *x = 1; }
}
"""
FILES = {"common/types.h": "", "column/apply.cuh": HEADER, "column/apply.cu": LAUNCHER}
KERNEL = "apply<float, Doubled<float> >"


@pytest.fixture
def sources(monkeypatch, tmp_path):
    """Kernels in folders, in place of csrc/cuda."""
    monkeypatch.setattr(nvrtc, "CUDA", tmp_path)
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return {path: path.read_text() for path in sorted(tmp_path.rglob("*.cu*"))}


def test_kernels_are_found_where_their_arguments_are_known(sources, tmp_path):
    assert nvrtc.defined_kernels(nvrtc.full_text(tmp_path / "column/apply.cu")) == ["one", "apply"]
    assert nvrtc.choose_file(KERNEL, sources) == tmp_path / "column/apply.cu"
    assert nvrtc.choose_file("one", sources) == tmp_path / "column/apply.cu"
    assert nvrtc.choose_file("apply<float, Halved<float> >", sources) is None
    assert nvrtc.choose_file("two", sources) is None
    without_launchers = {p: text for p, text in sources.items() if p.suffix == ".cuh"}
    header = tmp_path / "column/apply.cuh"
    assert nvrtc.choose_file("apply<float, int>", without_launchers) == header


@pytest.mark.skipif(
    find_spec("nvidia") is None or find_spec("nvidia.cuda_nvrtc") is None,
    reason='needs pip install ".[cuda-check]"',
)
def test_instantiations_that_are_named_are_compiled(sources, tmp_path):
    rows = usages(tmp_path / "column/apply.cu", [KERNEL, "one"])
    assert {(row.kernel, row.bound) for row in rows} == {(KERNEL, 128), ("one", 32)}
    assert all(0 < row.registers < 32 and not row.faults()[:-1] for row in rows)


# CUDA's occupancy calculator has the same for compute capability 7.0.
@pytest.mark.parametrize(
    ("registers", "static", "block", "dynamic", "warps"),
    [
        (32, 0, 1024, 0, 64),
        (33, 0, 1024, 0, 32),
        (64, 0, 256, 0, 32),
        (65, 0, 256, 0, 24),
        (40, 0, 64, 0, 48),
        (16, 0, 32, 0, 32),
        (16, 1024, 128, 47 * 1024, 8),
        (16, 1024, 128, 48 * 1024, 4),
    ],
)
def test_active_warps(registers, static, block, dynamic, warps):
    usage = Usage("kernel", 1024, registers, static, stack=0, spills=0)
    assert usage.active_warps(block, dynamic) == warps


def test_the_worst_launch_is_taken():
    usage = Usage("kernel", 128, 32, 0, stack=0, spills=0)
    usage.take_worst({(128, 0): (10, 20), (128, 64 * 1024): (100, 20)})
    assert (usage.dynamic_shared, usage.classes, usage.occupancy) == (64 * 1024, 100, 0.062)
    assert usage.faults() == ["kernel reaches an occupancy of 6% only, at (C, R) = (100, 20)"]


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("spills", 8, "kernel spills 8 bytes"),
        ("stack", 16, "kernel has a stack frame of 16 bytes"),
        ("bound", 64, "kernel has 128 threads, of which __launch_bounds__ allows 64"),
    ],
)
def test_faults_get_an_error_message(field, value, complaint):
    usage = Usage("kernel", 128, 32, 0, stack=0, spills=0)
    usage.take_worst({(128, 0): (10, 20)})
    assert usage.faults() == []
    setattr(usage, field, value)
    assert usage.faults() == [complaint]
