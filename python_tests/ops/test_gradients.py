"""The loss together with its gradients by logits and slack, in one operator."""

import pytest
import torch
from cases import make_inputs

import ptd_ext
from ptd_ext.ops._gradients import forward_computes_gradients
from ptd_ext.ops._library import CLEAN_POSTERIOR, TRANSITION_LOSS

OPS = torch.ops.ptd_ext


def arguments_of(inputs, importance, reduction):
    weight = torch.linspace(0.5, 2.0, inputs.logits.shape[1], dtype=inputs.parts.dtype)
    return (*inputs.arguments, weight), (importance, None, reduction, -100, 1e-8)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("importance", [0, 1, 2])
@pytest.mark.parametrize("slack", [None, 0.01])
@pytest.mark.parametrize(("samples", "classes"), [(21, 5), (21, 40), (300, 33)])
def test_they_are_those_of_the_backward_pass(samples, classes, slack, importance, reduction):
    inputs = make_inputs(samples, classes, 4, slack=slack, grad=False)
    inputs.labels[4] = -100  # ignored
    tensors, options = arguments_of(inputs, importance, reduction)
    need_slack = slack is not None and reduction != 0
    loss, dz, ds = OPS.transition_loss_with_gradients(*tensors, *options, need_slack)
    expected, *saved = OPS.transition_loss(*tensors, *options)
    # Each call takes its own way to the row sums, to the slack gradient and to the loss.
    needs = (True, False, True, need_slack)
    wanted = OPS.transition_loss_backward(torch.ones_like(loss), *tensors, *saved, *options, *needs)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(dz, wanted[0], rtol=1e-11, atol=1e-13)
    if need_slack:
        torch.testing.assert_close(ds, wanted[3], rtol=1e-11, atol=1e-13)
    else:
        assert ds.numel() == 0
    assert (dz[inputs.labels == -100] == 0).all()


@pytest.mark.parametrize("slack_requires_grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_logits_take_a_scaled_gradient(dtype, slack_requires_grad):
    """A gradient of 1e-6 vanishes in float16, but not if it is scaled before it is rounded."""
    inputs = make_inputs(9, 12, 3, dtype=torch.float32, slack=0.01, grad=False)
    logits = inputs.logits.to(dtype).requires_grad_()
    slack = inputs.slack.requires_grad_(slack_requires_grad)
    loss = ptd_ext.forward_loss(logits, inputs.labels, inputs.weights, inputs.parts, slack)
    (loss * 1e-6 * 2.0**16).backward()
    exact = inputs.logits.to(dtype).double().requires_grad_()
    doubles = (t.double() for t in (inputs.weights, inputs.parts, inputs.slack))
    (ptd_ext.forward_loss(exact, inputs.labels, *doubles) * 1e-6 * 2.0**16).backward()
    assert logits.grad.dtype == dtype
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=1e-2, atol=1e-5)
    assert (slack.grad is not None) == slack_requires_grad


def test_they_can_be_differentiated_again():
    inputs = make_inputs(5, 4, 2, slack=0.05, sparse=False)
    fixed = (inputs.labels, inputs.weights.detach(), inputs.parts.detach())

    def function(logits, slack):
        return ptd_ext.forward_loss(logits, *fixed, slack)

    leaves = (inputs.logits, inputs.slack)
    assert torch.autograd.gradcheck(function, leaves)
    assert torch.autograd.gradgradcheck(function, leaves)


def test_slack_needs_a_reduction():
    inputs = make_inputs(6, 5, 2, slack=0.1, grad=False)
    tensors, options = arguments_of(inputs, 0, 0)
    with pytest.raises(RuntimeError, match="need_slack must be False without a reduction"):
        OPS.transition_loss_with_gradients(*tensors, *options, True)


@pytest.mark.parametrize("reduction", [0, 1])
def test_opcheck(reduction):
    inputs = make_inputs(7, 4, 3, slack=0.05)
    tensors, options = arguments_of(inputs, 0, reduction)
    kept = (0, 4) if reduction else (0,)
    tensors = tuple(t if i in kept else t.detach() for i, t in enumerate(tensors))
    torch.library.opcheck(OPS.transition_loss_with_gradients, (*tensors, *options, reduction != 0))


def test_labels_out_of_range_are_named():
    inputs = make_inputs(6, 5, 2, slack=0.1)
    inputs.labels[3] = 5
    with pytest.raises(RuntimeError, match=r"noisy_labels\[3\] is 5; labels must be from 0 to 4"):
        ptd_ext.forward_loss(
            inputs.logits, inputs.labels, inputs.weights.detach(), inputs.parts.detach(),
            inputs.slack,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("needs", "reduction", "expected"),
    [
        ((True, False, False, False), 0, True),
        ((True, False, False, True), 1, True),
        ((True, False, False, True), 0, False),  # slack needs a sum over samples
        ((False, False, False, True), 1, False),
        ((True, True, False, False), 1, False),
        ((True, False, True, False), 1, False),
    ],
)
def test_which_gradients_the_forward_pass_computes(needs, reduction, expected):
    options = (0, None, reduction, -100, 1e-8)
    logits = torch.zeros(2, 3)
    assert forward_computes_gradients(TRANSITION_LOSS, logits, options, needs) is expected
    assert not forward_computes_gradients(TRANSITION_LOSS, logits.to("meta"), options, needs)
    assert not forward_computes_gradients(CLEAN_POSTERIOR, logits, (-100, 1e-8), needs)
