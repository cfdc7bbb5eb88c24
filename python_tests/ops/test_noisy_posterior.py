"""noisy_posterior where it is a matrix product: edges of its chunks, needs, types and memory."""

import itertools

import pytest
import torch
from cases import assert_same, each_device, make_inputs, normal, normal_like, peak_bytes

import ptd_ext
from ptd_ext.ops import reference


def fused(inputs):
    return ptd_ext.ops.noisy_posterior(inputs.logits, *inputs.transition)


def defined(inputs):
    return reference.noisy_posterior(inputs.logits, *inputs.transition)


# 512 samples of 64 parts and classes make 2^21 numbers, and so do 2^21 / (513 · 64) parts of 513.
@each_device
@pytest.mark.parametrize(
    "size",
    [(511, 64, 64), (512, 64, 64), (513, 64, 64), (19, 33, 4000), (32800, 33, 3)],
    ids=str,
)
def test_around_the_end_of_a_chunk(size, device):
    assert_same(fused, defined, make_inputs(*size, device=device))


@each_device
@pytest.mark.parametrize("classes", [32, 33, 100])
@pytest.mark.parametrize("samples", [0, 1, 37])
def test_one_matrix_for_all_samples(samples, classes, device):
    assert_same(fused, defined, make_inputs(samples, classes, 1, weights=False, device=device))
    stacked = make_inputs(samples, classes, 1, device=device)
    assert_same(fused, defined, stacked)


@each_device
@pytest.mark.parametrize("slack", [None, 0.01])
@pytest.mark.parametrize("classes", [7, 40])
def test_every_combination_of_gradients(classes, slack, device):
    inputs = make_inputs(21, classes, 5, slack=slack, grad=False, device=device)
    operators = torch.ops.ptd_ext
    arguments = (inputs.logits, *inputs.transition)
    posterior, saved = operators.noisy_posterior(*arguments)
    outer = normal_like(posterior)

    def gradients(*needs):
        return operators.noisy_posterior_backward(outer, *arguments, saved, *needs)

    complete = gradients(True, True, True, slack is not None)
    for needs in itertools.product([False, True], repeat=3 + (slack is not None)):
        asked = (*needs, False)[:4]
        for needed, found, full in zip(asked, gradients(*asked), complete, strict=True):
            if needed:
                torch.testing.assert_close(found, full, rtol=1e-12, atol=1e-12)
            else:
                assert found.numel() == 0


@each_device
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("classes", [9, 50])
def test_half_logits_are_accumulated_in_float32(classes, dtype, device):
    wide = make_inputs(30, classes, 4, dtype=torch.float32, device=device)
    half = wide.logits.detach().to(dtype).requires_grad_()
    wide = wide.to(torch.float32)
    with torch.no_grad():
        wide.logits.copy_(half)
    result, expected = ptd_ext.ops.noisy_posterior(half, *wide.transition), fused(wide)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, expected)
    outer = normal_like(result)
    (found,) = torch.autograd.grad(result, half, outer)
    (wanted,) = torch.autograd.grad(expected, wide.logits, outer)
    assert found.dtype == dtype
    torch.testing.assert_close(found, wanted.to(dtype))


@pytest.mark.parametrize("slack", [None, 0.01])
def test_autocast_changes_nothing(slack):
    inputs = make_inputs(30, 50, 4, slack=slack, dtype=torch.float32)
    outer = normal(30, 50)
    plain = fused(inputs)
    expected = torch.autograd.grad(plain, inputs.leaves(), outer)
    with torch.autocast("cpu", torch.bfloat16):
        result = fused(inputs)
        found = torch.autograd.grad(result, inputs.leaves(), outer)
    assert torch.equal(result, plain)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)


@each_device
def test_any_layout(device):
    """Weights, logits and gradients of other strides than the usual ones, parts by row."""
    inputs = make_inputs(70, 50, 6, dtype=torch.float64, device=device, grad=False)
    strided = inputs.map(lambda t: t.repeat_interleave(2, -1)[..., ::2].requires_grad_())
    assert not strided.weights.is_contiguous()
    assert_same(fused, defined, strided)
    transposed = inputs.map(
        lambda t: (t.t().contiguous().t() if t.dim() == 2 else t).requires_grad_()
    )
    assert_same(fused, defined, transposed)
    result = fused(transposed)
    outer = normal(50, 70, dtype=torch.float64, device=device).t()
    for ours, theirs in zip(
        torch.autograd.grad(result, transposed.leaves(), outer),
        torch.autograd.grad(defined(transposed), transposed.leaves(), outer),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@each_device
@pytest.mark.parametrize("slack", [None, 0.02])
@pytest.mark.parametrize("classes", [10, 70, 200])
def test_the_same_bits_every_time(classes, slack, device):
    inputs = make_inputs(150, classes, 4, slack=slack, dtype=torch.float32, device=device)
    outer = normal(150, classes, device=device)

    def run():
        result = fused(inputs)
        return result, *torch.autograd.grad(result, inputs.leaves(), outer)

    first = run()
    for _ in range(3):
        for ours, theirs in zip(run(), first, strict=True):
            assert torch.equal(ours, theirs)


@each_device
@pytest.mark.parametrize("slack", [None, 0.02])
@pytest.mark.parametrize("classes", [10, 70, 200])
def test_nan_stays_with_its_sample(classes, slack, device):
    inputs = make_inputs(40, classes, 3, slack=slack, dtype=torch.float32, device=device)
    with torch.no_grad():
        inputs.logits[3, 1] = torch.nan
        inputs.weights[5, 2] = torch.nan
    result = fused(inputs)
    (grad,) = torch.autograd.grad(result.square().sum(), inputs.logits)
    bad = torch.zeros(40, dtype=torch.bool, device=device)
    bad[[3, 5]] = True
    for array in (result, grad):
        assert array[bad].isnan().all()
        assert array[~bad].isfinite().all()


# The forward keeps whole matrices up to 181 classes and forms them twice above.
@each_device
@pytest.mark.parametrize("size", [(33, 10, 4), (21, 90, 3), (13, 181, 3), (7, 182, 3)], ids=str)
def test_rows_without_mass(size, device):
    """A row that slack takes to zero is uniform, and has no gradient."""
    inputs = make_inputs(*size, slack=0.05, device=device)
    with torch.no_grad():
        inputs.slack[::3] = -2.0
        inputs.slack[1] = -inputs.parts[0, 1]  # zero for samples of the first part alone
        inputs.weights[4] = 0
        inputs.weights[4, 0] = 1
    assert_same(fused, defined, inputs)
    grads = torch.autograd.grad(fused(inputs).square().sum(), inputs.slack)[0]
    assert (grads[::3] == 0).all()


@pytest.mark.parametrize("names", [("logits",), ("logits", "weights", "parts")], ids=len)
def test_intermediates_stay_small(names):
    """h ⊗ g of all samples has R times the size of the logits; a chunk of it is held."""
    samples, classes, parts = 16384, 40, 20
    inputs = make_inputs(samples, classes, parts, dtype=torch.float32)

    def step():
        torch.autograd.grad(fused(inputs).sum(), inputs.leaves(*names))

    rows = samples * (6 * classes + parts)
    allowed = rows + 2**21 + 2 * inputs.parts.numel()
    assert peak_bytes(step) < 4 * allowed
    assert samples * classes * parts > 2 * allowed
