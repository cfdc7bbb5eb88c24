"""The perceptron."""

import torch

from ptd_ext.engine.networks.mlp import HIDDEN, MLP


def test_the_second_hidden_layer_is_the_representation():
    torch.manual_seed(0)
    network = MLP(3, torch.Size((2, 5)))
    representation, logits = network(torch.rand(4, 2, 5))
    assert representation.shape == (4, HIDDEN)
    assert representation.min() == 0
    assert torch.equal(logits, network.fc(representation))
