"""The residual networks: torchvision's names and sizes, initial weights."""

import pytest
import torch

from ptd_ext.engine.networks.resnet import resnet18, resnet34, resnet50


def test_resnet50_has_torchvisions_names():
    state = resnet50(1000, 3).state_dict()
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


def test_initialisation_follows_the_seed_and_fan_out():
    networks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        networks.append(resnet18(10, 3))
    one, same, other = (network.layer4[1].conv2.weight for network in networks)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)


def test_stems():
    images = torch.rand(2, 1, 64, 64)
    small, large = resnet34(4, 1).eval(), resnet50(4, 1).eval()
    assert small(images)[0].shape == (2, 512)
    assert large(images)[0].shape == (2, 2048)
    assert small.conv1.kernel_size == (3, 3)
    assert large.conv1.kernel_size == (7, 7)
