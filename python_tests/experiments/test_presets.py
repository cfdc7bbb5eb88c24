"""Settings from defaults, presets, files and flags."""

import argparse
import dataclasses

import pytest

from ptd_ext.train.config.presets import resolve
from ptd_ext.train.config.settings import SECTIONS, Settings, describe
from ptd_ext.train.config.toml import (
    add_flags,
    flags_given,
    read_config,
    write_config,
    write_settings,
)
from ptd_ext.train.methods.registry import METHODS
from ptd_ext.transition.barrier import class_prior_of


def parse(*arguments):
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return flags_given(parser.parse_args(arguments))


def test_every_setting_has_a_section_a_sentence_and_a_flag():
    for field in dataclasses.fields(Settings):
        about = describe(field.name)
        assert about["section"] in SECTIONS
        assert len(about["help"]) > 5
        flag = "--" + field.name.replace("_", "-")
        if about["type"] is bool:
            assert parse(flag) == {field.name: True}
            assert parse(flag.replace("--", "--no-", 1)) == {field.name: False}
        elif about["type"] in (int, float) or about["choices"]:
            value = about["choices"][-1] if about["choices"] else about["type"](3)
            assert parse(flag, str(value)) == {field.name: value}


def test_flags_of_lists():
    assert parse("--milestones", "4", "8") == {"milestones": (4, 8)}
    assert parse("--milestones") == {"milestones": ()}
    assert parse() == {}


def test_a_file_of_settings_comes_back_the_same(tmp_path):
    settings = resolve(
        {}, {"dataset": "cifar10", "lr": 1e-05, "milestones": (), "data": 'a "b"\\c'}
    )
    write_settings(settings, tmp_path / "settings.toml")
    assert resolve(read_config(tmp_path / "settings.toml"), {}) == settings
    assert "[optimiser]" in (tmp_path / "settings.toml").read_text()
    write_config({"rate": 0.2, "method": "CE"}, tmp_path / "few.toml")
    assert read_config(tmp_path / "few.toml") == {"rate": 0.2, "method": "CE"}


def test_a_class_prior_is_a_word_or_shares(tmp_path):
    path = tmp_path / "config.toml"
    for text in ("class_prior = [0.5, 0.25, 0.25]", 'class_prior = "0.5,0.25,0.25"'):
        path.write_text(text)
        prior = class_prior_of(resolve(read_config(path), {}).class_prior)
        assert prior.tolist() == [0.5, 0.25, 0.25]
    given = parse("--class-prior", "0.5,0.25,0.25")
    assert class_prior_of(resolve({}, given).class_prior).tolist() == [0.5, 0.25, 0.25]
    assert class_prior_of(Settings().class_prior) is None
    assert class_prior_of("uniform") == "uniform"


def test_layers():
    """Flags over the file over the method over the preset over the data set over defaults."""
    assert resolve({}, {"dataset": "fashion_mnist", "preset": "paper"}).network == "resnet18"
    assert resolve({}, {"dataset": "fashion_mnist", "preset": "fast"}).network == "lenet5"
    assert resolve({}, {"dataset": "cifar10"}).parts == 20
    assert resolve({}, {"dataset": "cifar10", "method": "Forward"}).parts == 1
    with pytest.raises(ValueError, match="parts must be 1 for Forward"):
        resolve({"parts": 7}, {"dataset": "cifar10", "method": "Forward"})
    assert resolve({}, {"dataset": "cifar10", "preset": "fast"}).disagreement_start == 0
    assert resolve({}, {"dataset": "cifar10", "preset": "paper"}).disagreement_start == 20
    assert resolve({}, {"dataset": "npz"}).noise == "none"
    assert resolve({"parts": 7}, {"parts": 8}).parts == 8


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
    ("text", "sentence"),
    [
        ("lr = 'fast'", "lr must be a number; got 'fast'"),
        ("epochs = 1.5", "epochs must be a whole number"),
        ("milestones = 3", "milestones must be a list of numbers"),
        ("learning_rate = 1", "sets learning_rate, which is no setting"),
        ("batchsize = 1", "Did you mean batch_size?"),
        ("[optimizer]\nlr = 1.0", "has a section [optimizer]; there are data, method"),
        ("lr = ", "not a TOML file"),
    ],
)
def test_a_wrong_file_gets_a_sentence(tmp_path, text, sentence):
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r".") as caught:
        read_config(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_gets_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no configuration file"):
        read_config(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate", 1.0),
        ("rate", -0.1),
        ("lr", 0.0),
        ("noise", "lots"),
        ("epochs", 0),
        ("anchor_band", (97.0,)),
        ("threads", -1),
        ("max_importance", float("inf")),
        ("joint_epochs", 0),
        ("class_prior", "known"),
        ("class_prior", "0.5,0.6"),
        ("class_prior", "1.5,-0.5"),
        ("class_prior", "nan,nan"),
        ("validation", -0.1),
        ("validation", 1.0),
    ],
)
def test_a_wrong_value_gets_a_sentence(name, value):
    with pytest.raises(ValueError, match=f"{name} must"):
        Settings(**{name: value})


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
    with pytest.raises(ValueError, match="224 × 224 pixels, on which no network is trained from"):
        resolve({}, folder, **sizes)
    with pytest.raises(ValueError, match="network must name the network that network_weights"):
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
