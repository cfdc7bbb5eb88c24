"""Flags of the command line: one for every setting."""

import argparse

import pytest

from ptd_ext.experiments.flags import add_flags, flags_given
from ptd_ext.experiments.settings import ExperimentSettings


def parser(**options):
    made = argparse.ArgumentParser()
    add_flags(made, **options)
    return made


def parse(*arguments):
    return flags_given(parser().parse_args(arguments))


@pytest.mark.parametrize("name", ExperimentSettings.entries())
def test_every_setting_has_a_flag(name):
    entry = ExperimentSettings.entries()[name]
    if entry.type is bool:
        assert parse(entry.flag) == {name: True}
        assert parse(entry.flag.replace("--", "--no-", 1)) == {name: False}
    elif entry.item_type is not None:
        assert parse(entry.flag, "4", "8") == {name: tuple(map(entry.item_type, "48"))}
        assert parse(entry.flag) == {name: ()}
    else:
        value = entry.choices[-1] if entry.choices else entry.type(3)
        assert parse(entry.flag, str(value)) == {name: value}


def test_settings_that_are_not_given_stay_unset():
    assert parse() == {}


def test_sections_and_exceptions():
    text = parser(sections=("data",), without=("noise_file",)).format_help()
    assert "--dataset" in text
    assert "--noise-file" not in text
    assert "--epochs" not in text


def test_help_names_the_networks():
    assert "resnet18" in parser().format_help()


def test_help_shows_the_defaults():
    shown = " ".join(parser().format_help().split())
    for text in (
        "share of training labels that the noise makes wrong (default: 0.4)",
        "write TensorBoard event files (default: off)",
        "momentum of SGD (default: 0.9)",
        "columns to learn from (default: all but ids and constants) --ignore",
        "second method to train on the same data, to compare --preset",
    ):
        assert text in shown
