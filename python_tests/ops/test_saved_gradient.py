"""The gradient of the logits, made in the forward pass where it is the only one asked for."""

import pytest
import torch
from cases import make_inputs

OPS = torch.ops.ptd_ext
NEEDS = (True, False, False, False)


def arguments_of(inputs, importance, reduction):
    weight = torch.linspace(0.5, 2.0, inputs.logits.shape[1], dtype=inputs.parts.dtype)
    return (*inputs.arguments, weight), (importance, None, reduction, -100, 1e-8)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("importance", [0, 1, 2])
@pytest.mark.parametrize("slack", [None, 0.01])
@pytest.mark.parametrize("classes", [5, 40])
def test_it_is_the_one_of_the_backward_pass(classes, slack, importance, reduction):
    inputs = make_inputs(21, classes, 4, slack=slack, grad=False)
    inputs.labels[4] = -100  # ignored
    tensors, options = arguments_of(inputs, importance, reduction)
    found = []
    for save in (False, True):
        loss, *saved = OPS.transition_loss(*tensors, *options, save)
        grad = torch.linspace(-1, 2, 21, dtype=loss.dtype) if reduction == 0 else loss.new_tensor(3)
        dz, *_ = OPS.transition_loss_backward(grad, *tensors, *saved, *options, *NEEDS, save)
        found.append((loss, dz))
    for early, late in zip(*found, strict=True):
        torch.testing.assert_close(early, late, rtol=1e-12, atol=1e-14)
    assert (found[1][1][inputs.labels == -100] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_logits(dtype):
    inputs = make_inputs(9, 12, 3, dtype=torch.float32, grad=False)
    tensors, options = arguments_of(inputs, 0, 1)
    tensors = (tensors[0].to(dtype), *tensors[1:])
    found = []
    for save in (False, True):
        _, *saved = OPS.transition_loss(*tensors, *options, save)
        grad = torch.tensor(1.0)
        found.append(
            OPS.transition_loss_backward(grad, *tensors, *saved, *options, *NEEDS, save)[0]
        )
    assert found[0].dtype == found[1].dtype == dtype
    torch.testing.assert_close(*found)


def test_other_gradients_need_the_column():
    inputs = make_inputs(6, 5, 2, grad=False)
    tensors, options = arguments_of(inputs, 0, 1)
    loss, *saved = OPS.transition_loss(*tensors, *options, True)
    with pytest.raises(RuntimeError, match="gradient of the logits alone; ask for no other"):
        OPS.transition_loss_backward(
            torch.ones_like(loss), *tensors, *saved, *options, True, True, False, False, True
        )
