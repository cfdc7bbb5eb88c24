"""The CUDA operators as torch calls them, run by the emulator, against the CPU operators.

Values are the matter of the tests of each operator. Here: shapes, types and strides of what comes
back, inputs of any layout, and every combination of gradients.
"""

import itertools

import pytest
import torch
from cases import normal, normal_like, uniform
from emulator.harness import compiler
from emulator.operators import emulated
from random_numbers import new_generator

import ptd_ext
from ptd_ext.ops import reference
from ptd_ext.ops.simplex import WeightProblem


@pytest.fixture
def ops():
    with emulated() as operators:
        yield operators


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]


def same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
        tolerance = 2e-2 if a.dtype.itemsize == 2 else 2e-5
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance, equal_nan=True)


def spaced(tensor):
    """The same values with a gap after each."""
    return torch.stack([tensor, tensor], -1)[..., 0]


def by_column(tensor):
    return tensor.mT.contiguous().mT


def batch_of(n, c, r, slack, dtype):
    generator = new_generator(n + c)
    wide = torch.float64 if dtype is torch.float64 else torch.float32

    def normal(*shape):
        return torch.randn(*shape, dtype=wide, generator=generator)

    weights = normal(n, r).softmax(-1) if r else None
    parts = reference.project_transition(normal(*([r] if r else []), c, c))
    return normal(n, c).to(dtype), weights, parts, 0.1 * normal(c, c) if slack else None


LAYOUTS = {
    "plain": (lambda t: t, lambda t: t, lambda t: t),
    "prepared": (lambda t: t, ptd_ext.ops.prepare_parts, by_column),
    "spaced": (spaced, spaced, spaced),
    "transposed": (by_column, lambda t: t.mT.contiguous().mT, by_column),
}


TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# Every layout with every type at few classes; each once at 40 classes.
KINDS = [
    *itertools.product([(0, 4, 3), (5, 4, 3), (7, 1, 2), (6, 12, 0)], TYPES, LAYOUTS),
    *(((9, 40, 3), dtype, layout) for dtype, layout in zip(TYPES, LAYOUTS, strict=True)),
]


@pytest.mark.parametrize(("size", "dtype", "layout"), KINDS)
@pytest.mark.parametrize("slack", [False, True])
def test_noisy_posterior(ops, size, slack, dtype, layout):
    n, c, r = size
    rows, parts_layout, square = LAYOUTS[layout]
    logits, weights, parts, slack = batch_of(n, c, r, slack, dtype)
    weights = None if weights is None else rows(weights)
    slack = None if slack is None else square(slack)
    batch = (rows(logits), weights, parts_layout(parts), slack)
    expected = torch.ops.ptd_ext
    out, row_sums = ops.noisy_posterior(*batch)
    same((out, row_sums), expected.noisy_posterior(*batch))
    grad = out[:, :1].expand(n, c) if layout == "spaced" else normal_like(out)
    all_needs = itertools.product([False, True], repeat=4)
    everything = (True, weights is not None, True, slack is not None)
    one_layout = layout == "plain" and dtype is torch.float32
    for needs in all_needs if one_layout else [everything, (True, False, False, False)]:
        _, need_weights, _, need_slack = needs
        if (need_weights and weights is None) or (need_slack and slack is None):
            continue
        arguments = (grad, *batch, row_sums, *needs)
        same(
            ops.noisy_posterior_backward(*arguments),
            expected.noisy_posterior_backward(*arguments),
        )


def labels_of(n, c):
    labels = torch.arange(n) * 7 % c
    labels[1:2] = -100
    return labels


@pytest.mark.parametrize(("size", "dtype", "layout"), KINDS)
@pytest.mark.parametrize("slack", [False, True])
def test_transition_loss(ops, size, slack, dtype, layout):
    n, c, r = size
    rows, parts_layout, square = LAYOUTS[layout]
    logits, weights, parts, slack = batch_of(n, c, r, slack, dtype)
    weights = None if weights is None else rows(weights)
    slack = None if slack is None else square(slack)
    labels = spaced(labels_of(n, c)).int() if layout == "spaced" else labels_of(n, c)
    class_weight = uniform(c, dtype=parts.dtype)
    tensors = (rows(logits), labels, weights, parts_layout(parts), slack, class_weight)
    expected = torch.ops.ptd_ext
    every = itertools.product((0, 1, 2), (0, 1, 2))
    # The emulator is slow: every pair of options in one layout only, elsewhere each option once.
    all_pairs = layout == "plain" and dtype is torch.float32 and c < 40
    for importance, reduction in every if all_pairs else ((0, 1), (1, 2), (2, 0)):
        options = (importance, 1.5, reduction, -100, 1e-8)
        loss, total, saved = ops.transition_loss(*tensors, *options)
        wanted, wanted_total, wanted_saved = expected.transition_loss(*tensors, *options)
        same([loss], [wanted])
        if reduction:
            same([total], [wanted_total])
        if slack is None:
            assert saved.shape == (0,)  # the GPU forms the column again
        else:
            same([saved], [wanted_saved])
        grad = torch.ones_like(loss)[:1].expand(n) if reduction == 0 else torch.ones_like(loss)
        needs = (True, weights is not None, True, slack is not None)
        for asked in {needs, (True, False, False, False), (False, False, False, needs[3])}:
            same(
                ops.transition_loss_backward(grad, *tensors, total, saved, *options, *asked),
                expected.transition_loss_backward(
                    grad, *tensors, wanted_total, wanted_saved, *options, *asked
                ),
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("n", "c", "r"), [(0, 4, 3), (5, 4, 3), (9, 20, 3), (6, 12, 0)])
def test_clean_posterior(ops, n, c, r, slack, dtype):
    logits, weights, parts, slack = batch_of(n, c, r, slack, dtype)
    tensors = (logits, labels_of(n, c), weights, parts, slack)
    expected = torch.ops.ptd_ext
    posterior, saved = ops.clean_posterior(*tensors, -100, 1e-8)
    wanted, wanted_saved = expected.clean_posterior(*tensors, -100, 1e-8)
    same([posterior], [wanted])
    grad = normal(c, n, dtype=posterior.dtype).t()
    needs = (True, weights is not None, True, slack is not None)
    same(
        ops.clean_posterior_backward(grad, *tensors, saved, -100, 1e-8, *needs),
        expected.clean_posterior_backward(grad, *tensors, wanted_saved, -100, 1e-8, *needs),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "c", "r", "slack"),
    [(300_007, 2, 1, False), (2, 1000, 2, True), (3, 1000, 33, False), (40_009, 14, 1, True)],
)
def test_large_sizes(n, c, r, slack):
    """Hundreds of thousands of threads, and rows that many threads share."""
    logits, weights, parts, slack = batch_of(n, c, r, slack, torch.float32)
    tensors = (logits, labels_of(n, c), weights, parts, slack, None)
    options = (0, 1.5, 2, -100, 1e-8)
    needs = (True, False, False, slack is not None)
    results = []
    with emulated(check=False) as emulated_ops:
        for ops in (emulated_ops, torch.ops.ptd_ext):
            loss, *saved = ops.transition_loss(*tensors, *options)
            arguments = (torch.ones(()), *tensors, *saved, *options, *needs)
            gradients = ops.transition_loss_backward(*arguments)
            results.append((loss / n, gradients[0], gradients[3] / n))
    same(*results)


def test_label_out_of_range_is_nan_and_has_no_gradient(ops):
    logits, weights, parts, _ = batch_of(5, 4, 3, False, torch.float32)
    labels = torch.tensor([0, 9, 2, -3, 1])
    tensors = (logits, labels, weights, parts, None, None)
    loss, total, saved = ops.transition_loss(*tensors, 0, 1.0, 0, -100, 1e-8)
    assert loss.isnan().tolist() == [False, True, False, True, False]
    grad, *_ = ops.transition_loss_backward(
        torch.ones(5), *tensors, total, saved, 0, 1.0, 0, -100, 1e-8, True, False, False, False
    )
    assert not grad[[1, 3]].any()
    assert grad[[0, 2, 4]].any(1).all()


@pytest.mark.parametrize("shape", [(3, 3), (0, 3, 3), (2, 2, 5, 5), (2, 200, 200)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [lambda t: t, by_column, spaced])
def test_project_transition(ops, shape, dtype, layout):
    generator = new_generator(len(shape))
    matrix, grad = (layout(torch.randn(shape, dtype=dtype, generator=generator)) for _ in range(2))
    expected = torch.ops.ptd_ext
    same([ops.project_transition(matrix)], [expected.project_transition(matrix)])
    same(
        [ops.project_transition_backward(grad, matrix)],
        [expected.project_transition_backward(grad, matrix)],
    )


@pytest.mark.parametrize("shape", [(3,), (0, 5), (4, 2, 7), (2, 40)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [lambda t: t, spaced])
def test_simplex_projection(ops, shape, dtype, layout):
    generator = new_generator(len(shape))
    x, grad = (layout(torch.randn(shape, dtype=dtype, generator=generator)) for _ in range(2))
    expected = torch.ops.ptd_ext
    projected = ops.simplex_projection(x)
    same([projected], [expected.simplex_projection(x)])
    same(
        [ops.simplex_projection_backward(grad, projected)],
        [expected.simplex_projection_backward(grad, projected)],
    )


@pytest.mark.parametrize("layout", [lambda t: t, spaced, by_column])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("b", "n", "r"), [(2, 8, 6), (1, 0, 3), (3, 2, 40)])
def test_simplex_weights(ops, b, n, r, dtype, layout):
    generator = new_generator(n + r)

    def normal(*shape):
        return torch.randn(*shape, dtype=dtype, generator=generator)

    parts, linear, start = normal(b, r, 20), layout(normal(b, n, r)), layout(normal(b, n, r))
    problem = WeightProblem.of(parts @ parts.mT)
    for begin in (None, start.softmax(-1)):
        arguments = (*problem, linear, begin, 3, 0.0)
        found = ops.simplex_weights(*arguments)
        same([found], [torch.ops.ptd_ext.simplex_weights(*arguments)])


@pytest.mark.parametrize("slack", [False, True])
def test_more_parts_than_shared_memory_holds(ops, slack):
    batch = batch_of(6, 3, 700, slack, torch.float32)
    same(ops.noisy_posterior(*batch), torch.ops.ptd_ext.noisy_posterior(*batch))
