"""Frozen features of images, a batch at a time."""

import numpy as np
import pytest
import torch

from ptd_ext.engine.rows import features
from ptd_ext.engine.rows.features import extract_features


def test_a_network_from_a_file_is_evaluated_not_trained(monkeypatch):
    network = torch.nn.Dropout()
    monkeypatch.setattr(features, "read_weights", lambda path: {"layer3.5.conv1.weight"})
    monkeypatch.setattr(features, "build", lambda name, classes, inputs: network)
    monkeypatch.setattr(features, "load_weights", lambda network, path: None)
    extract = features._resnet("weights.pt")
    assert not network.training
    assert torch.equal(extract(torch.ones(1, 8)), torch.ones(8))


@pytest.mark.parametrize(
    ("names", "network"),
    [
        ({"layer1.0.conv3.weight", "layer3.5.conv1.weight"}, "resnet50"),
        ({"layer3.5.conv1.weight"}, "resnet34"),
        (set(), "resnet18"),
    ],
)
def test_the_names_of_weights_tell_the_network(monkeypatch, names, network):
    built = []
    monkeypatch.setattr(features, "read_weights", lambda path: names)
    monkeypatch.setattr(
        features, "build", lambda name, *_, **__: built.append(name) or torch.nn.Identity()
    )
    monkeypatch.setattr(features, "load_weights", lambda network, path: None)
    features._resnet("weights.pt")
    assert built == [network]


def test_bytes_are_fractions_and_batches_small():
    seen = []

    def means(batch):
        seen.append((len(batch), batch.max().item()))
        return batch.mean((2, 3)).double().requires_grad_()

    found = extract_features(np.full((130, 3, 2, 2), 255, np.uint8), means)
    assert seen == [(64, 1), (64, 1), (2, 1)]
    assert torch.equal(found, torch.ones(130, 3))
    assert not found.requires_grad


def test_a_module_is_evaluated():
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout()).train()
    assert torch.equal(extract_features(torch.ones(3, 1, 2, 2), network), torch.ones(3, 4))


@pytest.mark.parametrize(
    ("rows", "extractor", "message"),
    [
        (np.ones((9, 4)), len, r"takes images \[N, channels, height, width\]; X is \[9, 4\]"),
        (np.ones((9, 1, 2, 2)), lambda b: b, r"features \[9, D\] of a batch; got \[9, 1, 2, 2\]"),
        (np.ones((9, 1, 2, 2)), lambda b: b[:, 0, 0] * 1j, "must return real numbers; it returns"),
        (np.ones((9, 1, 2, 2)), lambda b: b[1:, 0, 0], r"features \[9, D\] .*; got \[8, 2\]"),
    ],
)
def test_other_shapes_are_rejected(rows, extractor, message):
    with pytest.raises(ValueError, match=message):
        extract_features(rows, extractor)
