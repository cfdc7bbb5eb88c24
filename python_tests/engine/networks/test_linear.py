"""The linear network."""

import torch

from ptd_ext.engine.networks.linear import Linear


def test_the_row_is_its_own_representation():
    network = Linear(3, torch.Size((2, 5)))
    x = torch.rand(4, 2, 5)
    representation, logits = network(x)
    assert torch.equal(representation, x.flatten(1))
    expected = x.flatten(1) @ network.fc.weight.T + network.fc.bias
    torch.testing.assert_close(logits, expected)
