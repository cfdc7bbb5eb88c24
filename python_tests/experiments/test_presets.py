"""Presets: how settings are layered, and settings that suit the user's own data."""

import pytest

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.experiments.presets import resolve


def test_layers():
    """Flags over the file over the method over the preset over the data set over defaults."""
    assert resolve({}, {"dataset": "fashion_mnist", "preset": "paper"}).network == "resnet18"
    assert resolve({}, {"dataset": "fashion_mnist", "preset": "fast"}).network == "lenet5"
    assert resolve({}, {"dataset": "cifar10"}).n_parts == 20
    assert resolve({}, {"dataset": "cifar10", "method": "Forward"}).n_parts == 1
    assert resolve({"n_parts": 7}, {"dataset": "cifar10", "method": "Forward"}).n_parts == 1
    assert resolve({}, {"dataset": "cifar10", "preset": "fast"}).disagreement_start == 0
    assert resolve({}, {"dataset": "cifar10", "preset": "paper"}).disagreement_start == 20
    assert resolve({}, {"dataset": "npz"}).noise == "none"
    assert resolve({"n_parts": 7}, {"n_parts": 8}).n_parts == 8


def test_the_paper_s_schedule():
    paper = resolve({}, {"preset": "paper", "dataset": "cifar10", "method": "CE"})
    assert (paper.epochs, paper.lr, paper.momentum, paper.weight_decay) == (100, 0.01, 0.9, 1e-4)
    assert (paper.milestones, paper.batch_size, paper.network) == ((40, 80), 128, "resnet34")
    cloth = resolve({}, {"preset": "paper", "dataset": "clothing1m"})
    assert (cloth.batch_size, cloth.lr, cloth.weight_decay, cloth.epochs) == (32, 1e-3, 1e-3, 10)
    assert (cloth.network, cloth.noise) == ("resnet50", "none")
    mates = resolve({}, {"preset": "paper", "dataset": "mnist", "method": "Co-teaching"})
    assert (mates.optimiser, mates.lr, mates.schedule) == ("adam", 1e-3, "linear")


@pytest.mark.parametrize(
    ("shape", "network"),
    [
        ((8,), "linear"),
        ((1, 8, 8), "linear"),
        ((1, 28, 28), "lenet5"),
        ((3, 64, 64), "resnet18"),
    ],
)
def test_own_data_get_what_suits_their_size_and_kind(shape, network):
    few, many = (
        resolve({}, {"dataset": "npz"}, samples=samples, shape=shape) for samples in (100, 10**6)
    )
    assert few.network == many.network == network
    assert (few.epochs, many.epochs) == (100, 10)
    assert (few.batch_size, many.batch_size) == (16, 512)
    assert (few.optimiser, few.select, few.noise) == ("adam", "likelihood", "none")
    assert few.warm_up_epochs == few.epochs
    assert few.count_rate == ("validation" if network == "linear" else "between")


def test_data_without_a_data_set_are_the_users(tmp_path):
    """They would otherwise be ignored: digits, the default, need no files."""
    (tmp_path / "d.csv").touch()
    for data, kind in ((tmp_path / "d.csv", "table"), (tmp_path, "image_folder")):
        assert resolve({"data": str(data)}, {}).dataset == kind
        assert resolve({}, {"data": str(data)}).dataset == kind
        assert resolve({"dataset": "mnist"}, {"data": str(data)}).dataset == "mnist"
    assert resolve({"data": ""}, {}).dataset == "digits"
    with pytest.raises(FileNotFoundError, match="neither a file nor a folder"):
        resolve({"data": "none"}, {})


def test_own_data_take_what_the_user_says():
    sizes = {"samples": 1000, "shape": (8,)}
    assert resolve({}, {"dataset": "npz", "network": "mlp"}, **sizes).network == "mlp"
    asked = resolve({}, {"dataset": "npz", "epochs": 7, "batch_size": 5}, **sizes)
    assert (asked.epochs, asked.warm_up_epochs, asked.batch_size) == (7, 7, 5)
    # A learning rate of one's own is for the preset's optimiser, not for another one.
    asked = resolve({}, {"dataset": "npz", "lr": 0.05}, **sizes)
    assert (asked.lr, asked.optimiser, asked.schedule) == (0.05, "sgd", "steps")
    assert (asked.count_base, asked.count_rate) == ("anchors", "between")
    paper = resolve({}, {"dataset": "npz", "preset": "paper"}, **sizes)
    assert (paper.epochs, paper.optimiser) == (100, "sgd")
    named = resolve({}, {"dataset": "mnist"}, samples=60000, shape=(1, 28, 28))
    assert named == resolve({}, {"dataset": "mnist"})


def test_large_images_are_not_trained_on_from_scratch_unasked():
    folder, sizes = {"dataset": "image_folder"}, {"samples": 1000, "shape": (3, 224, 224)}
    assert resolve({}, folder).image_size == 32
    assert resolve({}, {**folder, "network_weights": "w.pt"}).image_size == 224
    with pytest.raises(ValueError, match="network must be given for images of 224 × 224 pixels"):
        resolve({}, folder, **sizes)
    with pytest.raises(ValueError, match="network must be given together with network_weights"):
        resolve({}, {**folder, "network_weights": "w.pt"}, **sizes)
    assert resolve({}, {**folder, "network": "resnet50"}, **sizes).network == "resnet50"


def test_every_method_has_defaults_that_can_train():
    for method in METHODS:
        settings = resolve({"method": method}, {})
        assert settings.lr > 0
        assert settings.epochs > 0
    adam = resolve({"method": "Co-teaching"}, {})
    assert (adam.optimiser, adam.lr, adam.weight_decay) == ("adam", 1e-3, 0.0)
    assert resolve({"method": "Co-teaching"}, {"lr": 0.5}).lr == 0.5
