"""TOML files of settings: they come back the same, and errors name file and setting."""

import pytest

from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.toml import read_config, write_config
from ptd_ext.transition.barrier import class_prior_of


def test_a_file_of_settings_comes_back_the_same(tmp_path):
    settings = resolve(
        {}, {"dataset": "cifar10", "lr": 1e-05, "milestones": (), "data": 'a "b"\\c'}
    )
    write_config(vars(settings), tmp_path / "settings.toml")
    assert resolve(read_config(tmp_path / "settings.toml"), {}) == settings
    assert "[optimiser]" in (tmp_path / "settings.toml").read_text()
    write_config({"rate": 0.2, "method": "CE"}, tmp_path / "few.toml")
    assert read_config(tmp_path / "few.toml") == {"rate": 0.2, "method": "CE"}


def test_a_class_prior_is_a_string_or_shares(tmp_path):
    path = tmp_path / "config.toml"
    for text in ("class_prior = [0.5, 0.25, 0.25]", 'class_prior = "0.5,0.25,0.25"'):
        path.write_text(text)
        prior = class_prior_of(resolve(read_config(path), {}).class_prior)
        assert prior.tolist() == [0.5, 0.25, 0.25]


def test_old_names_of_settings_have_no_alias(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("[transition]\nnmf_iterations = 9\n")
    message = r"sets nmf_iterations, which is not a setting. Did you mean nmf_max_iter\?"
    with pytest.raises(ValueError, match=message):
        read_config(path)


def test_unknown_settings_are_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"batchsize is not a setting. Did you mean batch_size\?"):
        write_config({"batchsize": 1}, tmp_path / "config.toml")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr = 'fast'", "lr must be a number; got 'fast'"),
        ("epochs = 1.5", "epochs must be an integer"),
        ("milestones = 3", "milestones must be a list of numbers"),
        ("learning_rate = 1", "sets learning_rate, which is not a setting"),
        ("batchsize = 1", "Did you mean batch_size?"),
        ("[optimizer]\nlr = 1.0", "has a section [optimizer]; sections are data, method"),
        ("lr = ", "not a TOML file"),
    ],
)
def test_a_wrong_file_is_an_error(tmp_path, text, message):
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r".") as caught:
        read_config(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"configuration file .* does not exist"):
        read_config(tmp_path / "none.toml")
