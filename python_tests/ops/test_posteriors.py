"""Posteriors, T(x) itself and its projection."""

import pytest
import torch
from cases import SIZES, assert_same, each_device, each_slack, make_inputs, normal, uniform

import ptd_ext
from ptd_ext.ops import reference

each_size = pytest.mark.parametrize("size", SIZES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


@each_device
@each_size
@each_slack
@each_dtype
def test_noisy_posterior(size, slack, dtype, device):
    inputs = make_inputs(*size, slack=slack, dtype=dtype, device=device)
    assert_same(
        lambda i: ptd_ext.ops.noisy_posterior(i.logits, *i.transition),
        lambda i: reference.noisy_posterior(i.logits, *i.transition),
        inputs,
    )


@each_device
@each_size
@each_slack
def test_clean_posterior(size, slack, device):
    inputs = make_inputs(*size, slack=slack, device=device)
    for options in ({}, {"smoothing": 0.1}, {"ignore_index": 1}):
        labels = inputs.labels if "ignore_index" not in options else inputs.labels.clamp(min=0)
        assert_same(
            lambda i, o=options, y=labels: ptd_ext.clean_posterior(i.logits, y, *i.transition, **o),
            lambda i, o=options, y=labels: reference.clean_posterior(
                i.logits, y, *i.transition, **o
            ),
            inputs,
        )


@each_device
@each_dtype
@pytest.mark.parametrize("classes", [5, 20, 50])
@pytest.mark.parametrize("slack", [None, 0.05])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("largest", [0, 9])
def test_clean_posterior_of_a_bad_logit_where_the_column_is_zero(
    bad, largest, slack, classes, dtype, device
):
    """Its sample becomes NaN, even if the largest logit is of another class outside the column."""
    inputs = make_inputs(6, classes, 3, slack=slack, ignored=False, dtype=dtype, device=device)
    inputs.labels[:] = torch.tensor([1, 0, 2, 0, 2, 0])
    with torch.no_grad():
        inputs.parts.copy_(torch.full_like(inputs.parts, 1 / classes))
        inputs.parts[:, :, 1] = 0
        inputs.parts[:, 2, 1] = 0.5
        if slack:
            inputs.slack[:, 1] = -1
            inputs.slack[2, 1] = 0.2
        inputs.logits[0, 3] = largest
        inputs.logits[0, 0] = bad
    posterior = ptd_ext.clean_posterior(*inputs.arguments, smoothing=0.0)
    (grad,) = torch.autograd.grad(posterior.square().sum(), inputs.logits)
    for array in (posterior, grad):
        assert array[0].isnan().all()
        assert array[1:].isfinite().all()


@each_device
@each_size
@each_slack
@each_dtype
def test_transition_matrix(size, slack, dtype, device):
    inputs = make_inputs(*size, slack=slack, dtype=dtype, device=device)
    assert_same(
        lambda i: ptd_ext.ops.transition_matrix(*i.transition),
        lambda i: reference.transition_matrix(*i.transition),
        inputs,
    )
    if slack is not None and size[0]:
        rows = ptd_ext.ops.transition_matrix(*inputs.transition).sum(-1)
        torch.testing.assert_close(rows, torch.ones_like(rows))


@each_device
def test_class_dependent(device):
    inputs = make_inputs(9, 6, 1, slack=0.05, weights=False, device=device)
    assert ptd_ext.ops.transition_matrix(*inputs.transition).shape == (6, 6)
    assert_same(
        lambda i: ptd_ext.ops.noisy_posterior(i.logits, *i.transition),
        lambda i: reference.noisy_posterior(i.logits, *i.transition),
        inputs,
    )
    assert_same(
        lambda i: ptd_ext.ops.transition_matrix(*i.transition),
        lambda i: reference.transition_matrix(*i.transition),
        inputs,
    )


@each_device
@each_dtype
@pytest.mark.parametrize("shape", [(4, 4), (0, 3, 3), (5, 1, 1), (3, 2, 17, 17), (2, 40, 40)])
def test_project_transition(shape, dtype, device):
    matrix = normal(*shape, dtype=dtype, device=device)
    if matrix.numel() and shape[-1] > 1:
        matrix[..., 0, :] = -matrix[..., 0, :].abs()  # nothing positive
    check_projection(matrix, normal(*shape, dtype=dtype, device=device, seed=1))


@each_dtype
def test_project_transition_of_a_row_that_almost_vanishes(dtype):
    matrix = normal(5, 4, 4, dtype=dtype)
    matrix[:, 1] = -matrix[:, 1].abs()
    matrix[:, 1, 2] = torch.tensor([1e-3, 1e-6, 1e-12, 1e-20, 1e-30], dtype=dtype)
    matrix[:, 1, 0] = 0.3 * matrix[:, 1, 2]
    check_projection(matrix, normal(5, 4, 4, dtype=dtype, seed=1))


def check_projection(matrix, outer):
    """Entries of T are within C + 1 roundings; those of the gradient within C + 3 of max |G| / r.

    The sum r has C roundings and the division one. In (G − ⟨G, T⟩) / r the mean adds C more and the
    difference one, all relative to the largest |G|; the two results differ by twice that.
    """
    eps, classes = torch.finfo(matrix.dtype).eps, matrix.shape[-1]
    matrix.requires_grad_()
    ours, theirs = ptd_ext.ops.project_transition(matrix), reference.project_transition(matrix)
    assert (ours - theirs).abs().le((classes + 1) * eps).all()
    assert (ours.sum(-1) - 1).abs().le(2 * (classes + 1) * eps).all()
    found, wanted = (torch.autograd.grad(y, matrix, outer)[0] for y in (ours, theirs))
    row_sum = matrix.detach().clamp(min=0).sum(-1, keepdim=True)
    largest = outer.abs().amax(-1, keepdim=True) / torch.where(row_sum > 0, row_sum, torch.inf)
    assert (found - wanted).abs().le(2 * (2 * classes + 3) * eps * largest).all()


@each_device
def test_project_transition_keeps_nan_and_takes_any_layout(device):
    matrix = uniform(3, 4, 4, device=device)
    matrix[1, 2, 0] = torch.nan
    projected = ptd_ext.ops.project_transition(matrix)
    assert projected[1, 2].isnan().all()
    assert projected.isnan().sum() == 4
    strided = matrix.transpose(0, 2).contiguous().transpose(0, 2)
    assert torch.equal(ptd_ext.ops.project_transition(strided).nan_to_num(), projected.nan_to_num())
    half = ptd_ext.ops.project_transition(matrix.half())
    assert half.dtype == torch.float32


@each_device
def test_posteriors_are_consistent(device):
    """Σ_ȳ P(ȳ | x) P(Y | x, ȳ) = P(Y | x); and the forward loss has gradient g − q."""
    inputs = make_inputs(12, 5, 3, slack=0.02, ignored=False, device=device)
    softmax = inputs.logits.softmax(-1)
    noisy = ptd_ext.ops.noisy_posterior(inputs.logits, *inputs.transition)
    torch.testing.assert_close(noisy.sum(-1), torch.ones_like(noisy[:, 0]))
    total = torch.zeros_like(softmax)
    for label in range(5):
        labels = torch.full((12,), label, device=device)
        clean = ptd_ext.clean_posterior(inputs.logits, labels, *inputs.transition)
        total += noisy[:, label, None] * clean
    torch.testing.assert_close(total, softmax, atol=1e-6, rtol=0)
    loss = ptd_ext.forward_loss(*inputs.arguments, reduction="sum")
    (grad,) = torch.autograd.grad(loss, inputs.logits)
    clean = ptd_ext.clean_posterior(*inputs.arguments)
    torch.testing.assert_close(grad, softmax - clean)
