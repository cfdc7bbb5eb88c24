"""The registry of networks: entries, and the choice by the shape of samples."""

import pytest
import torch

from ptd_ext.engine.networks import NETWORKS, Network, build, check_name, networks_for

SHAPES = {"anything": (5,), "images": (3, 32, 32), "tokens": (6,)}


@pytest.mark.parametrize("name", NETWORKS)
def test_an_entry_is_complete(name):
    entry = NETWORKS[name]
    assert 5 < len(entry.help) < 80
    vectors = torch.rand(9, 4) if entry.takes == "tokens" else None
    network = build(name, 3, inputs=SHAPES[entry.takes], embedding=vectors)
    assert network.fc.out_features == 3


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        ((8,), ("linear", "mlp")),
        ((1, 8, 8), ("linear", "mlp")),
        ((1, 11, 40), ("linear", "mlp")),
        ((1, 12, 12), ("lenet5",)),
        ((3, 40, 40), ("lenet5",)),
        ((3, 40, 41), ("resnet18",)),
        ((3, 96, 96), ("resnet18",)),
        ((3, 97, 20), ()),
    ],
)
def test_networks_for_your_own_data(shape, names):
    assert networks_for(shape) == names


def test_a_new_network_is_one_entry(monkeypatch):
    class Mine(torch.nn.Module):
        def __init__(self, n_classes, inputs, embedding):
            super().__init__()
            self.fc = torch.nn.Linear(inputs.numel(), n_classes)

    monkeypatch.setitem(NETWORKS, "mine", Network(Mine, "anything", "mine", rows=True))
    assert build("mine", 3, inputs=(5,)).fc.weight.shape == (3, 5)
    assert networks_for((5,)) == ("linear", "mlp", "mine")
    check_name("mine")


def test_names():
    check_name("mlp")
    check_name("module:function")
    check_name("auto", other=("auto",))
    for wrong in ("auto", "alexnet", None, 3):
        with pytest.raises(ValueError, match=r"network must be one of linear, .*; got"):
            check_name(wrong)
