"""The CUDA operators as torch calls them, run by the emulator, against the CPU operators.

Values are the matter of the tests of each kernel. Here: shapes, types and strides of what comes
back, inputs of any layout, and every combination of gradients.
"""

import itertools

import pytest
import torch
from emulator.harness import compiler
from emulator.operators import emulated_operators

import ptd_ext
from ptd_ext import reference

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")


def same(emulated, expected):
    assert len(emulated) == len(expected)
    for a, b in zip(emulated, expected, strict=True):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
        tolerance = 2e-2 if a.dtype.itemsize == 2 else 2e-5
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


def spaced(tensor):
    """The same values with a gap after each."""
    return torch.stack([tensor, tensor], -1)[..., 0]


def by_column(tensor):
    return tensor.mT.contiguous().mT


def batch_of(n, c, r, slack, dtype):
    generator = torch.Generator().manual_seed(n + c)
    wide = torch.float64 if dtype is torch.float64 else torch.float32

    def normal(*shape):
        return torch.randn(*shape, dtype=wide, generator=generator)

    weights = normal(n, r).softmax(-1) if r else None
    parts = reference.project_transition(normal(*([r] if r else []), c, c))
    return normal(n, c).to(dtype), weights, parts, 0.1 * normal(c, c) if slack else None


LAYOUTS = {
    "plain": (lambda t: t, lambda t: t, lambda t: t),
    "prepared": (lambda t: t, ptd_ext.prepare_parts, by_column),
    "spaced": (spaced, spaced, spaced),
    "transposed": (by_column, lambda t: t.mT.contiguous().mT, by_column),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("n", "c", "r"), [(0, 4, 3), (5, 4, 3), (7, 1, 2), (9, 40, 3), (6, 5, 0)])
def test_noisy_posterior(n, c, r, slack, dtype, layout):
    rows, parts_layout, square = LAYOUTS[layout]
    logits, weights, parts, slack = batch_of(n, c, r, slack, dtype)
    weights = None if weights is None else rows(weights)
    slack = None if slack is None else square(slack)
    batch = (rows(logits), weights, parts_layout(parts), slack)
    emulated, expected = emulated_operators(), torch.ops.ptd_ext
    out, row_sums = emulated.noisy_posterior(*batch)
    same((out, row_sums), expected.noisy_posterior(*batch))
    grad = out[:, :1].expand(n, c) if layout == "spaced" else torch.randn_like(out)
    for needs in itertools.product([False, True], repeat=4):
        _, need_weights, _, need_slack = needs
        if (need_weights and weights is None) or (need_slack and slack is None):
            continue
        arguments = (grad, *batch, row_sums, *needs)
        same(
            emulated.noisy_posterior_backward(*arguments),
            expected.noisy_posterior_backward(*arguments),
        )


@pytest.mark.parametrize("shape", [(3, 3), (0, 3, 3), (2, 2, 5, 5), (2, 200, 200)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [lambda t: t, by_column, spaced])
def test_project_transition(shape, dtype, layout):
    generator = torch.Generator().manual_seed(len(shape))
    matrix, grad = (layout(torch.randn(shape, dtype=dtype, generator=generator)) for _ in range(2))
    emulated, expected = emulated_operators(), torch.ops.ptd_ext
    same([emulated.project_transition(matrix)], [expected.project_transition(matrix)])
    same(
        [emulated.project_transition_backward(grad, matrix)],
        [expected.project_transition_backward(grad, matrix)],
    )


def test_too_many_parts():
    batch = batch_of(2, 2, 321, False, torch.float32)
    with pytest.raises(RuntimeError, match="a GPU takes at most 320 parts; got 321"):
        emulated_operators().noisy_posterior(*batch)
