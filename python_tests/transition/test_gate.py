"""The linear gate: weights of new features, types, and error messages."""

import pytest
import torch
from random_numbers import new_generator

import ptd_ext
from ptd_ext.transition import LinearGate


def test_weights_are_the_softmax_of_an_affine_function():
    g = new_generator(0)
    gate = LinearGate(*(torch.randn(shape, generator=g) for shape in ((3, 4), (3,), (4,))))
    features = torch.randn(5, 4, generator=g, dtype=torch.float64)
    weight, bias, centre = (tensor.double() for tensor in gate.tensors().values())
    expected = ((features - centre) @ weight.T + bias).softmax(1)
    torch.testing.assert_close(gate(features), expected)
    assert gate(features.half()).dtype == torch.float32
    assert gate.to(torch.float64).weight.dtype == torch.float64


def test_gate_is_checked():
    gate = LinearGate(torch.zeros(2, 4), torch.zeros(2), torch.zeros(4))
    parts = torch.eye(3).expand(2, 3, 3)
    with pytest.raises(ValueError, match="gate must give weights of 3 parts; it gives 2"):
        ptd_ext.PartTransition(torch.eye(3).expand(3, 3, 3), gate=gate)
    with pytest.raises(ValueError, match="a basis or a gate, not both"):
        ptd_ext.PartTransition(parts, torch.zeros(2, 4), gate=gate)
    with pytest.raises(ValueError, match=r"features must be \[N, 4\]; got \[1, 5\]"):
        ptd_ext.PartTransition(parts, gate=gate).weights(torch.zeros(1, 5))
    with pytest.raises(ValueError, match=r"gate bias must be \[2\]; got \[3\]"):
        LinearGate(torch.zeros(2, 4), torch.zeros(3), torch.zeros(4))
    with pytest.raises(ValueError, match="gate centre must be finite"):
        LinearGate(torch.zeros(2, 4), torch.zeros(2), torch.full((4,), torch.inf))


@pytest.mark.parametrize("shape", [(4,), (1, 2, 4), (0, 4), (2, 0)])
def test_the_weight_is_a_matrix_that_is_not_empty(shape):
    bias, centre = torch.zeros(shape[0]), torch.zeros(shape[-1])
    with pytest.raises(ValueError, match=r"gate weight must be \[R, D\]; got \["):
        LinearGate(torch.zeros(shape), bias, centre)
