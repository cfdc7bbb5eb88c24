"""The descriptions of the operators agree with their schemas."""

import pytest
import torch
from cases import make_inputs

from ptd_ext.ops._library import DIFFERENTIABLE, FUSED_OPS, REDUCTIONS, TRANSITION_LOSS

each_op = pytest.mark.parametrize("op", FUSED_OPS, ids=lambda op: op.name)


@each_op
def test_arguments(op):
    names = [argument.name for argument in op.forward_op._schema.arguments]
    assert names[: len(op.tensors)] == list(op.tensors)
    assert len(names) == len(op.tensors) + op.options
    assert [op.tensors[p] for p in op.positions] == list(DIFFERENTIABLE)
    grad, *rest = [argument.name for argument in op.backward_op._schema.arguments]
    saved = [output.name for output in op.forward_op._schema.returns[1:]]
    needs = [f"need_{name}" for name in DIFFERENTIABLE]
    assert grad.startswith("grad")
    assert rest == [*op.tensors, *saved, *names[len(op.tensors) :], *needs]


@each_op
def test_only_the_loss_has_gradients_in_its_forward_pass(op):
    assert (op.with_gradients_op is not None) == (op is TRANSITION_LOSS)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("importance", [0, 1, 2])
def test_definition(importance, reduction):
    """The operator and its definition take the same arguments."""
    inputs = make_inputs(7, 4, 3, slack=0.1, grad=False)
    tensors = (*inputs.arguments, torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=torch.float64))
    options = (importance, 1.5, REDUCTIONS[reduction], -100, 1e-3)
    expected = TRANSITION_LOSS.define(*tensors, *options)
    loss, *_ = TRANSITION_LOSS.forward_op(*tensors, *options)
    torch.testing.assert_close(loss, expected)
