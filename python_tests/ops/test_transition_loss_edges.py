"""Logits, labels and matrices at the edge of what makes sense."""

import math
from dataclasses import replace

import pytest
import torch
from cases import Inputs, each_device, each_loss, make_inputs

import ptd_ext
from ptd_ext.ops import reference

INF, NAN = math.inf, math.nan


@each_device
@each_loss
@pytest.mark.parametrize("classes", [3, 20, 50])
@pytest.mark.parametrize("slack", [None, 0.05])
@pytest.mark.parametrize("bad", [[NAN, 0.0], [INF, 0.0], [NAN, -INF]], ids=str)
def test_nan_stays_in_its_sample(loss, classes, slack, bad, device):
    inputs = make_inputs(40, classes, 4, slack=slack, ignored=False, device=device)
    clean = loss.fused(*inputs.arguments, reduction="none", **loss.options)
    (clean_grad,) = torch.autograd.grad(clean.sum(), inputs.logits)
    logits = inputs.logits.detach().clone()
    logits[5, :2] = torch.tensor(bad, dtype=torch.float64, device=device)
    logits.requires_grad_()
    value = loss.fused(logits, inputs.labels, *inputs.transition, reduction="none", **loss.options)
    (grad,) = torch.autograd.grad(value.sum(), logits)
    rest = torch.arange(40) != 5
    assert value[5].isnan()
    assert torch.equal(value[rest], clean[rest])
    assert torch.equal(grad[rest], clean_grad[rest])


@each_device
@each_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_classes_masked_with_minus_infinity(loss, dtype, device):
    """The loss of the remaining classes, and no gradient to the masked ones."""
    inputs = make_inputs(16, 8, 3, ignored=False, dtype=dtype, device=device)
    logits = inputs.logits.detach().clone()
    logits[:, 6:] = -INF
    logits.requires_grad_()
    labels = inputs.labels % 6
    value = loss.fused(logits, labels, *inputs.transition, reduction="none", **loss.options)
    expected = loss.defined(logits, labels, *inputs.transition, reduction="none", **loss.options)
    torch.testing.assert_close(value, expected)
    assert value.isfinite().all()
    (grad,) = torch.autograd.grad(value.sum(), logits)
    assert grad.isfinite().all()
    assert not grad[:, 6:].any()


@each_device
@each_loss
def test_label_of_a_masked_class(loss, device):
    """The network rules the label out: reweighting has no weight left, forward stays finite."""
    logits = torch.tensor([[0.5, 1.0, -INF]], dtype=torch.float64, device=device).requires_grad_()
    parts = torch.full((3, 3), 1 / 3, dtype=torch.float64, device=device)
    value = loss.fused(logits, torch.tensor([2], device=device), None, parts, **loss.options)
    (grad,) = torch.autograd.grad(value, logits)
    assert value.isfinite()
    assert grad.isfinite().all()
    if loss.name != "forward":
        assert value == 0
        assert not grad.any()


@each_device
@each_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [1.0, 80.0, 1e4])
def test_label_of_probability_zero(loss, dtype, spread, device):
    """A column of zeros: finite loss and gradient, of the size that the smoothing gives."""
    parts = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    parts = parts.to(dtype=dtype, device=device)
    logits = (spread * torch.tensor([[1.0, -1.0, 0.0]])).to(parts).requires_grad_()
    label = torch.tensor([2], device=device)
    value = loss.fused(logits, label, None, parts, **loss.options)
    (grad,) = torch.autograd.grad(value, logits)
    assert value.isfinite()
    assert grad.isfinite().all()
    if loss.name == "forward":
        assert abs(value.item() - math.log(3 / 1e-8)) < 1e-4


@each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_smoothing(dtype, device):
    """Exact even where the classes that can give the label are beyond exp's range."""
    parts = torch.tensor([[1.0, 0.0], [0.25, 0.75]], dtype=dtype, device=device)
    logits = torch.tensor([[2000.0, 0.0]], dtype=dtype, device=device).requires_grad_()
    label = torch.tensor([1], device=device)
    loss = ptd_ext.forward_loss(logits, label, None, parts, smoothing=0.0)
    torch.testing.assert_close(loss.item(), 2000.0 - math.log(0.75))
    (grad,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(grad, torch.tensor([[1.0, -1.0]], dtype=dtype, device=device))


@each_device
@each_loss
def test_rows_without_a_positive_entry_are_uniform(loss, device):
    """Slack that clamps whole rows: a uniform row, and no gradient into it."""
    for classes in (5, 40):
        inputs = make_inputs(24, classes, 3, slack=0.01, device=device)
        slack = inputs.slack.detach().clone()
        slack[1] = -2.0
        slack.requires_grad_()
        arguments = (inputs.logits, inputs.labels, inputs.weights.detach(), inputs.parts.detach())
        ours = loss.fused(*arguments, slack, **loss.options)
        theirs = loss.defined(*arguments, slack, **loss.options)
        torch.testing.assert_close(ours, theirs)
        leaves = [inputs.logits, slack]
        found = torch.autograd.grad(ours, leaves, allow_unused=True)
        wanted = torch.autograd.grad(theirs, leaves, allow_unused=True)
        torch.testing.assert_close(found[0], wanted[0])
        if wanted[1] is not None:
            torch.testing.assert_close(found[1], wanted[1])
            assert not found[1][1].any()


@each_device
def test_nan_in_the_transition_reaches_the_loss(device):
    """Clamping must not turn a NaN weight into a plausible number."""
    for classes in (6, 40):
        inputs = make_inputs(12, classes, 3, slack=0.01, ignored=False, device=device, grad=False)
        inputs.weights[4, 1] = NAN
        value = ptd_ext.forward_loss(*inputs.arguments, reduction="none")
        assert value[4].isnan()
        assert value[torch.arange(12) != 4].isfinite().all()


@each_device
@pytest.mark.parametrize("classes", [5, 40])
@pytest.mark.parametrize("slack", [None, 0.01])
def test_nan_weights_of_an_ignored_sample_do_no_harm(classes, slack, device):
    inputs = make_inputs(12, classes, 3, slack=slack, device=device)
    weights = inputs.weights.detach().clone()
    weights[1] = NAN  # its label is ignored
    weights.requires_grad_()
    leaves = [inputs.logits, weights, inputs.parts, *inputs.leaves("slack")]
    loss = ptd_ext.forward_loss(inputs.logits, inputs.labels, weights, inputs.parts, inputs.slack)
    assert loss.isfinite()
    for asked in (leaves, [leaf for leaf in leaves if leaf is inputs.slack]):
        for grad in torch.autograd.grad(loss, asked, retain_graph=True) if asked else ():
            assert grad.isfinite().all()


@each_device
def test_reweight_without_mass_or_smoothing(device):
    """β is infinite: capped it is the cap, uncapped the loss is infinite, never NaN."""
    parts = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64, device=device)
    logits = torch.tensor([[0.3, 1.0]], dtype=torch.float64, device=device)
    label = torch.tensor([1], device=device)
    loss = ptd_ext.reweight_loss(logits, label, None, parts, smoothing=0.0)
    assert loss == INF
    capped = ptd_ext.reweight_loss(logits, label, None, parts, smoothing=0.0, max_importance=2.0)
    torch.testing.assert_close(capped, 2 * torch.nn.functional.cross_entropy(logits, label))


def inputs_of_one_origin(
    classes: int, slack: float | None, mass: float, dtype: torch.dtype, device: str
) -> Inputs:
    """Inputs whose first sample has the label 1, which class 2 alone can have produced."""
    inputs = make_inputs(
        6, classes, 4, slack=slack, sparse=False, ignored=False, dtype=dtype, device=device
    )
    inputs.labels[:] = torch.tensor([1, 0, 2, 0, 2, 2])
    with torch.no_grad():
        inputs.parts[:, :, 1] = 0
        inputs.parts[:, 2, 1] = mass
        if slack:
            inputs.slack[:, 1] = -1
            inputs.slack[2, 1] = 0.2 if mass else -1
    return inputs


def zero_or(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if gradient is None else gradient


each_column = pytest.mark.parametrize("classes", [3, 20, 50])
each_slack = pytest.mark.parametrize("slack", [None, 0.05])
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@each_device
@each_loss
@each_column
@each_slack
@each_dtype
@pytest.mark.parametrize("mass", [0, 0.5])
def test_column_without_mass(loss, classes, slack, dtype, mass, device):
    """Without smoothing the loss is infinite, or what the bound on beta leaves of it. Mass at a
    masked class alone is as good as none."""
    inputs = inputs_of_one_origin(classes, slack, mass, dtype, device)
    with torch.no_grad():
        inputs.logits[0, 2] = -INF
    options = {"reduction": "none", "smoothing": 0.0} | loss.options
    value = loss.fused(*inputs.arguments, **options)
    torch.testing.assert_close(value, loss.defined(*inputs.arguments, **options))
    assert value.isinf().tolist() == [loss.name != "capped"] + [False] * 5
    if mass == 0 and loss.name in ("forward", "capped"):  # an infinite beta has no gradient
        for grad in torch.autograd.grad(value.sum(), inputs.leaves(), allow_unused=True):
            assert grad is None or grad.isfinite().all()


@each_device
@each_loss
@each_column
@each_slack
@each_dtype
@pytest.mark.parametrize("mass", [0.5, 1e-3])
@pytest.mark.parametrize("above", [60, 100, 300])
def test_largest_logit_where_the_column_is_zero(loss, classes, slack, dtype, mass, above, device):
    """Only dL/du of a class that is not in the column overflows; of the results that it enters,
    only the gradient of the parts does."""
    inputs = inputs_of_one_origin(classes, slack, mass, dtype, device)
    with torch.no_grad():
        inputs.logits[0, 0] = above
    options = {"reduction": "none"} | loss.options
    outer = torch.tensor([3.0, 1, 1, 1, 1, 1], device=device)
    value = loss.fused(*inputs.arguments, smoothing=0.0, **options)
    exact = inputs.to(torch.float64)
    # Smoothed, so that the definition has a gradient, but by nothing that can be seen.
    expected = loss.defined(*exact.arguments, smoothing=1e-300, **options)
    close = {"rtol": 1e-4, "atol": 1e-5, "check_dtype": False}
    torch.testing.assert_close(value, expected, **close)
    every = torch.autograd.grad(value, inputs.leaves(), outer.to(value), retain_graph=True)
    truth = torch.autograd.grad(expected, exact.leaves(), outer.double(), allow_unused=True)
    for leaf, grad, wanted in zip(inputs.leaves(), every, truth, strict=True):
        assert grad.isfinite().all()
        if slack or leaf is not inputs.parts or above < 64:
            torch.testing.assert_close(grad, zero_or(wanted, leaf), **close)
    if slack:
        (alone,) = torch.autograd.grad(value, inputs.slack, outer.to(value))
        torch.testing.assert_close(alone, zero_or(truth[-1], alone), **close)


@each_device
def test_reweight_gradient_of_a_sure_label_with_huge_importance(device):
    """g_y = 1 and β = 1e8: rounding of one minus the other must not be enlarged."""
    parts = torch.tensor([[1.0, 0.0], [1.0, 0.0]], device=device)
    logits = torch.tensor([[-40.0, 40.0]], device=device).requires_grad_()
    label = torch.tensor([1], device=device)
    ptd_ext.reweight_loss(logits, label, None, parts, reduction="sum").backward()
    assert logits.grad.abs().max() < 1e-20


@each_device
@pytest.mark.parametrize("classes", [2, 3, 17, 100])
@pytest.mark.parametrize("importance", ["detached", "attached"])
@pytest.mark.parametrize("gap", [8, 15, 17, 25, 40])
def test_reweighting_where_a_sure_label_is_ruled_out(classes, importance, gap, device):
    """β is as large as 1 − g_ȳ is small: their product must keep its digits in float32."""
    inputs = make_inputs(12, classes, 1, weights=False, ignored=False, dtype=torch.float32)
    with torch.no_grad():
        inputs.logits[torch.arange(12), inputs.labels] += gap + inputs.logits.amax(1)
        inputs.parts.fill_diagonal_(0).div_(inputs.parts.sum(1, keepdim=True).clamp(min=1e-3))
    inputs = inputs.map(lambda t: t.detach().to(device).requires_grad_())
    inputs = replace(inputs, labels=inputs.labels.to(device))
    exact = inputs.to(torch.float64)
    options = {"reduction": "none", "importance": importance}
    value = ptd_ext.reweight_loss(*inputs.arguments, **options)
    expected = reference.reweight_loss(*exact.arguments, **options)
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=0, check_dtype=False)
    (grad,) = torch.autograd.grad(value.sum(), inputs.logits)
    (wanted,) = torch.autograd.grad(expected.sum(), exact.logits)
    close = 1e-5 * expected.detach()[:, None].clamp(min=1e-30)
    assert ((grad - wanted).abs() <= close).all()


@each_device
@each_loss
@pytest.mark.parametrize("size", [1e-44, 1e-40, 1e-36, 1e-32])
def test_tiny_parts_without_smoothing(loss, size, device):
    """A column that is subnormal throughout still has a loss and a gradient of the logits."""
    parts = torch.full((4, 4), size, device=device)
    logits = torch.tensor([[1.0, 2.0, -3.0, 0.5], [0.0, 9.0, 1.0, 1.0]], device=device)
    labels = torch.tensor([0, 1], device=device)
    options = {"reduction": "none", "smoothing": 0.0} | loss.options
    leaf, exact = logits.clone().requires_grad_(), logits.double().requires_grad_()
    value = loss.fused(leaf, labels, None, parts, **options)
    expected = loss.defined(exact, labels, None, parts.double(), **options)
    fits = expected < torch.finfo(torch.float32).max
    assert value[~fits].isinf().all()
    torch.testing.assert_close(value[fits].double(), expected[fits], rtol=1e-4, atol=0)
    if fits.all():
        (grad,) = torch.autograd.grad(value.sum(), leaf)
        (wanted,) = torch.autograd.grad(expected.sum(), exact)
        if loss.name != "attached":  # whose gradient of the column is beyond float32
            close = 1e-4 * max(1, wanted.abs().max().item())
            torch.testing.assert_close(grad.double(), wanted, rtol=0, atol=close)
    posterior = ptd_ext.clean_posterior(logits, labels, None, parts, smoothing=0.0)
    torch.testing.assert_close(posterior, logits.softmax(-1))


# Cut to 32 bits, the last five would be a class, the label that is ignored, or a class.
BAD_LABELS = [4, -1, 2**40, 2**32 + 1, -(2**32), 2**32 - 100, -(2**63)]


@pytest.mark.parametrize("label", BAD_LABELS)
@pytest.mark.parametrize("slack", [None, 0.01])
def test_label_out_of_range_names_sample_and_label(label, slack):
    inputs = make_inputs(9, 4, 2, slack=slack, grad=False)
    inputs.labels[6] = label
    with pytest.raises(RuntimeError, match=rf"noisy_labels\[6\] is {label}; .* 0 to 3"):
        ptd_ext.forward_loss(*inputs.arguments)
    with pytest.raises(RuntimeError, match=rf"clean_posterior: noisy_labels\[6\] is {label}"):
        ptd_ext.clean_posterior(*inputs.arguments)


@each_device
@each_loss
@pytest.mark.parametrize("ignored", [2**32 + 2, 2**40, -(2**32)])
def test_all_digits_of_the_ignored_label_count(loss, ignored, device):
    """The class that has the same low half is a class like any other."""
    inputs = make_inputs(9, 4, 2, ignored=False, device=device)
    inputs.labels[::2] = ignored % 2**32
    inputs.labels[3] = ignored
    options = {"reduction": "none", **loss.options}
    value = loss.fused(*inputs.arguments, ignore_index=ignored, **options)
    kept = torch.arange(9, device=device) != 3
    expected = loss.defined(
        inputs.logits[kept], inputs.labels[kept], inputs.weights[kept], inputs.parts, **options
    )
    torch.testing.assert_close(value[kept], expected)
    assert value[3] == 0
    posterior = ptd_ext.clean_posterior(*inputs.arguments, ignore_index=ignored)
    torch.testing.assert_close(posterior[3], inputs.logits[3].softmax(-1))
