"""The settings of an experiment, and what of them the engine gets."""

import pytest

from ptd_ext.engine.settings.settings import SECTIONS, Settings
from ptd_ext.experiments.settings import ExperimentSettings


def test_every_setting_has_a_section_and_help():
    for entry in ExperimentSettings.entries().values():
        assert entry.section in SECTIONS
        assert len(entry.help) > 5


def test_the_engine_gets_only_the_settings_of_training():
    settings = ExperimentSettings(dataset="npz", rate=0.3, epochs=7, method="CE")
    known = settings.for_training(0.25)
    assert type(known) is Settings
    assert known == Settings(rate=0.25, epochs=7, method="CE")
    assert settings.for_training(None).rate == -1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate", -1.0),
        ("noise", "lots"),
        ("validation_fraction", -0.1),
        ("validation_fraction", 1.0),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_setting(name, value):
    with pytest.raises(ValueError, match=f"{name} must"):
        ExperimentSettings(**{name: value})
