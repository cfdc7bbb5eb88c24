"""The public functions: types, casts, and what they hand to the operators."""

import pytest
import torch
from cases import make_inputs, uniform

import ptd_ext
from ptd_ext.ops import functional

INPUTS = make_inputs(9, 5, 3, slack=0.1, dtype=torch.float32, grad=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_type_of_the_result(dtype):
    """float64 for float64 logits, else float32, whatever the types of T(x)."""
    logits = INPUTS.logits.to(dtype)
    expected = torch.float64 if dtype is torch.float64 else torch.float32
    for transition in (INPUTS.transition, [t.double() for t in INPUTS.transition]):
        results = (
            ptd_ext.forward_loss(logits, INPUTS.labels, *transition),
            ptd_ext.reweight_loss(logits, INPUTS.labels, *transition),
            ptd_ext.clean_posterior(logits, INPUTS.labels, *transition),
            ptd_ext.ops.noisy_posterior(logits, *transition),
        )
        assert {result.dtype for result in results} == {expected}


def test_casts_are_differentiated():
    """Gradients come back in the type of their tensor."""
    logits = INPUTS.logits.half().requires_grad_()
    leaves = [t.double().requires_grad_() for t in INPUTS.transition]
    ptd_ext.forward_loss(logits, INPUTS.labels, *leaves).backward()
    assert logits.grad.dtype is torch.float16
    assert {leaf.grad.dtype for leaf in leaves} == {torch.float64}


def test_type_of_the_matrix():
    weights, parts, slack = INPUTS.transition
    for given, expected in (
        ((weights.half(), parts.half(), None), torch.float32),
        ((weights, parts.double(), None), torch.float64),
        ((weights, parts, slack.double()), torch.float64),
    ):
        assert ptd_ext.ops.transition_matrix(*given).dtype is expected
    assert ptd_ext.ops.project_transition(parts.bfloat16()).dtype is torch.float32


def test_default_importance_is_detached():
    arguments = (INPUTS.logits.clone().requires_grad_(), INPUTS.labels, *INPUTS.transition)
    (default,) = torch.autograd.grad(ptd_ext.reweight_loss(*arguments), arguments[0])
    for importance, is_default in (("detached", True), ("attached", False)):
        loss = ptd_ext.reweight_loss(*arguments, importance=importance)
        (grad,) = torch.autograd.grad(loss, arguments[0])
        assert torch.equal(grad, default) == is_default


@pytest.mark.parametrize(
    ("classes", "slack", "prepared"), [(31, True, False), (32, True, True), (32, False, False)]
)
def test_parts_are_laid_out_once_where_both_passes_read_them(classes, slack, prepared):
    """With slack and many classes; otherwise the kernels do it, in less time."""
    parts = uniform(2, classes, classes)
    change = torch.zeros(classes, classes) if slack else None
    logits, weights = torch.zeros(3, classes), uniform(3, 2)
    _, given, _ = functional._transition(logits, weights, parts, change, False)
    assert (given is not parts) == prepared
    assert torch.equal(given, parts)
