"""Presets: how settings are layered, and settings that suit the user's own data."""

import pytest

from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.experiments.datasets import DATA_SETS
from ptd_ext.experiments.presets import default_text, resolve
from ptd_ext.experiments.settings import ExperimentSettings


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


def test_image_folders_are_decoded_at_the_size_of_their_network():
    folder = {"dataset": "image_folder"}
    assert resolve({}, folder).image_size == 32
    assert resolve({}, {**folder, "network_weights": "w.pt"}).image_size == 224


def test_settings_that_suit_the_data_give_way_to_those_given():
    suited = {"epochs": 33, "lr": 0.5, "batch_size": 5}
    found = resolve({"dataset": "npz", "method": "Co-teaching"}, {"batch_size": 9}, suited=suited)
    assert (found.epochs, found.lr, found.batch_size) == (33, 1e-3, 9)


def test_every_method_has_defaults_that_can_train():
    for method in METHODS:
        settings = resolve({"method": method}, {})
        assert settings.lr > 0
        assert settings.epochs > 0
    adam = resolve({"method": "Co-teaching"}, {})
    assert (adam.optimiser, adam.lr, adam.weight_decay) == ("adam", 1e-3, 0.0)
    assert resolve({"method": "Co-teaching"}, {"lr": 0.5}).lr == 0.5


def test_the_defaults_that_the_help_shows():
    assert default_text("epochs") == "depends on preset, data"
    assert default_text("anchor_count") == "depends on method"
    assert [default_text(name) for name in ("report", "ridge", "against")] == ["on", "0.1", ""]
    entries = ExperimentSettings.entries()
    fixed = [name for name in entries if not default_text(name).startswith("depends on ")]
    changed = {"dataset", "preset", "method"}
    for dataset in DATA_SETS:
        for preset in entries["preset"].choices:
            for method in METHODS:
                found = resolve({"dataset": dataset, "preset": preset, "method": method}, {})
                for name in {*fixed} - changed:
                    assert getattr(found, name) == entries[name].default
