"""The settings of training: every field is an entry, and is checked."""

import dataclasses
import inspect

import pytest

import ptd_ext
from ptd_ext.engine.settings.settings import SECTIONS, Settings
from ptd_ext.experiments.settings import ExperimentSettings

OF_EXPERIMENTS = {
    *("dataset", "data", "data_limit", "noise", "noise_input", "noise_file", "labels_file"),
    *("human_labels", "image_size", "word_vectors", "text_length", "text_headers", "test_labels"),
    *("validation_fraction", "against", "preset", "label", "text", "columns", "ignore"),
}


def test_every_field_is_an_entry():
    for field in dataclasses.fields(Settings):
        entry = Settings.entries()[field.name]
        assert entry.name == field.name
        assert entry.section in SECTIONS
        assert len(entry.help) > 5
        assert not entry.help.startswith(("of ", "what ", "whether "))
        entry.check(entry.default)


def test_settings_of_experiments_are_not_settings_of_training():
    assert ExperimentSettings.entries().keys() - Settings.entries().keys() == OF_EXPERIMENTS
    with pytest.raises(TypeError, match="dataset"):
        Settings(dataset="digits")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate", 1.0),
        ("rate", -0.1),
        ("lr", 0.0),
        ("epochs", 0),
        ("anchor_band", (97.0,)),
        ("anchor_band", (99.0, 97.0)),
        ("threads", -1),
        ("max_importance", float("inf")),
        ("joint_epochs", 0),
        ("class_prior", "known"),
        ("class_prior", "0.5,0.6"),
        ("class_prior", "1.5,-0.5"),
        ("class_prior", "nan,nan"),
        ("forget_rate", 1.5),
        ("n_parts", 257),
        ("seed", -1),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_setting(name, value):
    with pytest.raises(ValueError, match=f"{name} must"):
        Settings(**{name: value})


def test_the_noise_rate_is_unknown_unless_given():
    assert Settings().rate == -1
    assert Settings(rate=0.0).rate == 0
    assert Settings(rate=0.2).left_out == 0.2
    assert Settings(rate=0.2, forget_rate=0.1).left_out == 0.1


def test_replace_keeps_the_class_and_checks():
    changed = ExperimentSettings(dataset="npz").replace(epochs=3)
    assert isinstance(changed, ExperimentSettings)
    assert (changed.dataset, changed.epochs) == ("npz", 3)
    with pytest.raises(ValueError, match="epochs must be at least 1; got 0"):
        changed.replace(epochs=0)


# Arguments and settings of the same meaning. Where their defaults differ, so does the third entry:
# 0 or "unknown" stands for None in a TOML file.
PAIRS = [
    ("PTDClassifier", "method", "method"),
    ("PTDClassifier", "network", "network"),
    ("PTDClassifier", "n_parts", "n_parts"),
    ("PTDClassifier", "random_state", "seed"),
    ("find_label_issues", "random_state", "seed"),
    ("TransitionEM", "barrier", "barrier"),
    ("TransitionEM", "prior_weight", "prior_weight"),
    ("TransitionEM", "base_share", "count_base_share"),
    ("TransitionEM", "hold_diagonal", "hold_diagonal"),
    ("find_anchors", "rule", "anchor_rule"),
    ("find_anchors", "band", "anchor_band"),
    ("fit_learned_parts", "min_gain", "min_gain"),
    ("fit_learned_parts", "n_components", "gate_components"),
    ("fit_learned_parts", "n_parts", "n_parts"),
    ("fit_learned_parts", "validation_fraction", "validation_fraction"),
    ("fit_part_transitions", "ridge", "ridge"),
]
UNKNOWN = [
    ("TransitionEM", "class_prior", "class_prior", "unknown"),
    ("TransitionEM", "window", "count_window", 0),
    ("reweight_loss", "max_importance", "max_importance", 0.0),
    ("find_anchors", "count", "anchor_count", 1000),  # None depends on the rule
]


def default_of(function, argument):
    return inspect.signature(getattr(ptd_ext, function)).parameters[argument].default


def test_functions_and_settings_have_the_same_defaults():
    defaults = {name: entry.default for name, entry in ExperimentSettings.entries().items()}
    for function, argument, setting in PAIRS:
        assert default_of(function, argument) == defaults[setting], (function, argument)
    for function, argument, setting, value in UNKNOWN:
        assert default_of(function, argument) is None, (function, argument)
        assert defaults[setting] == value, setting
