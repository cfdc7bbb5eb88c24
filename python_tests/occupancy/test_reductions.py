"""Additions of a butterfly in the PTX of the kernels round on their own."""

import re
import shutil
import subprocess

import pytest

from occupancy.nvrtc import CUDA

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc"),
]

# Kernels with a loop that a sum over lanes ends, and those whose sums are of products.
SOURCES = [
    "simplex/simplex_weights.cu",
    "simplex/simplex_projection.cu",
    "matrix/fused_posterior.cu",
]


def sums_of_shuffles(ptx):
    """The instructions that add a number from another lane, which follow its shuffle."""
    shuffled = set()
    for line in ptx.splitlines():
        words = re.findall(r"[%\w.]+", line)
        if ".entry" in line:
            shuffled.clear()  # each kernel has registers of its own
        elif "shfl.sync.bfly.b32" in line:
            shuffled.add(words[1].split("|")[0])
        elif words and words[0].startswith("mov.b") and shuffled & set(words[2:]):
            shuffled.add(words[1])  # the bits as a float, or both halves of a double
        elif words and re.match(r"(add|fma)\.\S*f(32|64)", words[0]) and shuffled & set(words[2:]):
            yield words[0]


@pytest.mark.parametrize("source", SOURCES)
def test_no_product_can_be_fused_with_them(source, tmp_path):
    """ptxas may fuse `add` with the product before it, `add.rn` never."""
    ptx = tmp_path / "kernels.ptx"
    command = ["nvcc", "-std=c++20", "-O3", "-arch=compute_75", "-ptx", f"-I{CUDA}"]
    command += [f"-I{CUDA.parent}", "-o", ptx, CUDA / source]
    subprocess.run(command, check=True)
    found = set(sums_of_shuffles(ptx.read_text()))
    assert found
    assert found <= {"add.rn.f32", "add.rn.f64"}


def test_an_addition_that_can_be_fused_is_found():
    ptx = """
    shfl.sync.bfly.b32 %r9|%p2, %r8, 4, %r1, %r2;
    mov.b32 %f5, %r9;
    fma.rn.f32 %f6, %f3, %f3, %f5;
    add.f32 %f7, %f3, %f5;
    add.f32 %f8, %f3, %f4;
    """
    assert list(sums_of_shuffles(ptx)) == ["fma.rn.f32", "add.f32"]
