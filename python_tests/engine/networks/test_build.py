"""Networks are built by name or by a function, and their outputs are checked."""

import sys

import pytest
import torch

from ptd_ext.engine.networks import NETWORKS, build, check

IMAGES = [
    ("mlp", (1, 8, 8), 128),
    ("mlp", (13,), 128),
    ("lenet5", (1, 28, 28), 84),
    ("lenet5", (3, 32, 32), 84),
    ("lenet5", (1, 12, 15), 84),
    ("resnet18", (1, 28, 28), 512),
    ("resnet34", (3, 32, 32), 512),
    ("resnet50", (3, 64, 64), 2048),
]


def parameters(network):
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(("name", "inputs", "width"), IMAGES)
def test_shapes(name, inputs, width):
    network = build(name, 7, inputs=inputs)
    assert network.training
    assert check(network, torch.rand(3, *inputs), 7) == width
    assert network.training
    network.eval()
    representation, logits = network(torch.rand(3, *inputs))
    assert representation.shape == (3, width)
    assert (representation >= 0).all()
    assert torch.equal(logits, network.fc(representation))
    logits.sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_numbers_of_parameters():
    assert parameters(build("resnet50", 1000, inputs=(3, 224, 224))) == 25_557_032
    assert parameters(build("resnet18", 10, inputs=(3, 32, 32))) == 11_173_962
    assert parameters(build("resnet34", 10, inputs=(3, 32, 32))) == 21_282_122
    assert parameters(build("lenet5", 10, inputs=(1, 28, 28))) == 61_706


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("lenet", (1, 28, 28), f"one of {', '.join(NETWORKS)}, or package.module:function"),
        ("lenet5", (1, 8, 8), "at least 12 × 12 pixels; got 8 × 8. Use mlp for smaller images"),
        ("lenet5", (64,), r"images \[channels, H, W\]; got samples \[64\]"),
        ("resnet18", (28, 28), r"images \[channels, H, W\]"),
        ("news_conv", (30,), "needs embedding"),
        (
            "no_such_module:f",
            (3,),
            "no module no_such_module. Is its folder on PYTHONPATH",
        ),
        ("torch.no_such:f", (3,), "there is no module torch.no_such"),
        ("torch.nn:no_such", (3,), "must name a function of torch.nn"),
        (":f", (3,), "network must be package.module:function; got ':f'"),
    ],
)
def test_wrong_arguments(name, inputs, message):
    with pytest.raises(ValueError, match=message):
        build(name, 10, inputs=inputs)


def test_more_wrong_arguments():
    with pytest.raises(ValueError, match="mlp takes no embedding"):
        build("mlp", 3, inputs=(3,), embedding=torch.zeros(3, 3))
    with pytest.raises(ValueError, match=r"tokens \[L\]"):
        build("news_conv", 3, inputs=(3, 4), embedding=torch.zeros(3, 3))
    with pytest.raises(ValueError, match=r"floats \[V, D\]; got torch.float32 \[3\]"):
        build("news_conv", 3, inputs=(3,), embedding=torch.zeros(3))


MINE = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, classes, inputs, result):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(inputs.numel(), 5), nn.ReLU())
        self.last = nn.Linear(5, classes)
        self.result = result

    def forward(self, x):
        r = self.body(x)
        return self.result(r, self.last(r))

def good(classes, inputs): return Mine(classes, inputs, lambda r, z: (r, z))
def logits_only(classes, inputs): return Mine(classes, inputs, lambda r, z: z)
def three(classes, inputs): return Mine(classes, inputs, lambda r, z: (r, z, z))
def unflat(classes, inputs): return Mine(classes, inputs, lambda r, z: (r[:, :, None], z))
def text(classes, inputs): return Mine(classes, inputs, lambda r, z: (r, "z"))
def more(classes, inputs): return Mine(classes + 1, inputs, lambda r, z: (r, z))
def nothing(classes, inputs): return None
"""


def test_a_network_of_a_function(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    batch = torch.rand(4, 2, 3)

    def run(name):
        return check(build(f"my_networks:{name}", 6, inputs=(2, 3)), batch, 6)

    assert run("good") == 5
    for name, kind, message in (
        ("logits_only", TypeError, r"Mine.forward must return \(representation.*; got Tensor"),
        ("three", TypeError, "got 3 values"),
        ("unflat", ValueError, r"batch of 4 the representation is torch.float32 \[4, 5, 1\]"),
        ("text", TypeError, "the logits is a str"),
        ("more", ValueError, r"with C = 6; got logits \[4, 7\]"),
        ("nothing", TypeError, "must return a torch.nn.Module; got NoneType"),
    ):
        with pytest.raises(kind, match=message):
            run(name)
