"""The networks: shapes, sizes, torchvision's names, weights of files, networks of one's own."""

import sys

import pytest
import torch
from torch import nn

from ptd_ext.train.networks import NAMES, build, check

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


def news_conv(words=40, **options):
    return build("news_conv", 20, inputs=(30,), embedding=torch.randn(words, 6), **options)


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


@pytest.mark.parametrize("length", [1, 4, 30, 1000])
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_news_conv(length, kind):
    network = news_conv()
    tokens = torch.randint(0, 40, (3, length), dtype=kind)
    assert check(network, tokens, 20) == 128
    representation, logits = network(tokens)
    assert (representation >= 0).all()
    assert torch.equal(logits, network.fc(representation))
    assert not network.embedding.weight.requires_grad


def test_news_conv_pools_as_if_after_relu():
    network = news_conv()
    x = network.embedding(torch.arange(40)[None]).transpose(1, 2)
    for conv in (network.conv1, network.conv2):
        x = nn.functional.max_pool1d(conv(x).relu(), 5, ceil_mode=True)
    assert torch.equal(network(torch.arange(40)[None])[0], network.conv3(x).relu().amax(2))


def test_numbers_of_parameters():
    assert parameters(build("resnet50", 1000, inputs=(3, 224, 224))) == 25_557_032
    assert parameters(build("resnet18", 10, inputs=(3, 32, 32))) == 11_173_962
    assert parameters(build("resnet34", 10, inputs=(3, 32, 32))) == 21_282_122
    assert parameters(build("lenet5", 10, inputs=(1, 28, 28))) == 61_706


def test_resnet50_has_torchvisions_names():
    state = build("resnet50", 1000, inputs=(3, 224, 224)).state_dict()
    shapes = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.running_mean": (64,),
        "layer1.0.conv1.weight": (64, 64, 1, 1),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer1.0.downsample.1.num_batches_tracked": (),
        "layer2.0.conv2.weight": (128, 128, 3, 3),
        "layer3.5.bn3.bias": (1024,),
        "layer4.2.conv3.weight": (2048, 512, 1, 1),
        "fc.weight": (1000, 2048),
        "fc.bias": (1000,),
    }
    assert {name: tuple(state[name].shape) for name in shapes} == shapes
    assert len(state) == 320


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_weights(tmp_path, ending):
    from safetensors.torch import save_file

    trained = build("resnet18", 1000, inputs=(3, 32, 32))
    path = tmp_path / f"weights.{ending}"
    save = save_file if ending == "safetensors" else torch.save
    save(trained.state_dict(), path)
    same = build("resnet18", 1000, inputs=(3, 32, 32), weights=path)
    other = build("resnet18", 14, inputs=(3, 32, 32), weights=path)
    for name, value in trained.state_dict().items():
        assert torch.equal(same.state_dict()[name], value)
        assert name.startswith("fc.") or torch.equal(other.state_dict()[name], value)
    assert other.fc.weight.shape == (14, 512)


class Evil:
    def __reduce__(self):
        return print, ("run",)


def test_wrong_weights(tmp_path, capsys):
    path = tmp_path / "weights.pth"

    def load():
        return build("mlp", 3, inputs=(4,), weights=path)

    with pytest.raises(FileNotFoundError, match="is not a file"):
        load()
    path.write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"is rejected|is cut off"):
        load()
    torch.save({"fc.weight": Evil()}, path)
    with pytest.raises(ValueError, match=r"rejected: it asks for .*print"):
        load()
    assert capsys.readouterr().out == ""
    torch.save({"epoch": 3}, path)
    with pytest.raises(ValueError, match="must hold a state dict"):
        load()
    torch.save(build("lenet5", 3, inputs=(1, 28, 28)).state_dict(), path)
    with pytest.raises(ValueError, match=r"weights of this MLP; conv1.bias is not one of them"):
        load()
    torch.save({"fc1.weight": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match=r"fc.bias is missing .5 missing, 0 unknown of 6"):
        load()
    torch.save(build("mlp", 3, inputs=(5,)).state_dict(), path)
    with pytest.raises(ValueError, match=r"fc1.weight must be \[128, 4\], got \[128, 5\]"):
        load()


def test_initialisation_follows_the_seed_and_fan_out():
    networks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        networks.append(build("resnet18", 10, inputs=(3, 32, 32)))
    one, same, other = (network.layer4[1].conv2.weight for network in networks)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("lenet", (1, 28, 28), f"one of {', '.join(NAMES)}, or package.module:function"),
        ("lenet5", (1, 8, 8), "at least 12 × 12 pixels; got 8 × 8. For smaller ones there is mlp"),
        ("lenet5", (64,), r"images \[channels, H, W\]; got samples \[64\]"),
        ("resnet18", (28, 28), r"images \[channels, H, W\]"),
        ("news_conv", (30,), "needs embedding"),
        ("no_such_module:f", (3,), "there is no no_such_module. Is its folder on PYTHONPATH"),
        ("torch.no_such:f", (3,), "there is no torch.no_such"),
        ("torch.nn:no_such", (3,), "must name a function of torch.nn"),
        (":f", (3,), "must be package.module:function"),
    ],
)
def test_wrong_arguments(name, inputs, message):
    with pytest.raises(ValueError, match=message):
        build(name, 10, inputs=inputs)


def test_more_wrong_arguments():
    with pytest.raises(ValueError, match="classes must be"):
        build("mlp", 1, inputs=(3,))
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


def test_a_network_of_ones_own(tmp_path, monkeypatch):
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


@pytest.mark.parametrize("shape", [(1, 12, 20), (3, 20, 12)])
def test_images_that_are_not_square_and_two_classes(shape):
    network = build("lenet5", 2, inputs=shape)
    assert check(network, torch.zeros(3, *shape), 2) == 84
