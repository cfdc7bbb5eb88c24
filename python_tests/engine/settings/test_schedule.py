"""Schedules for the user's own data: by size, by network, within bounds."""

import pytest

from ptd_ext.engine.networks import NETWORKS
from ptd_ext.engine.settings.schedule import (
    COUNTING,
    SCHEDULE,
    candidates,
    other_stages,
    schedule_for,
)
from ptd_ext.engine.settings.settings import Settings

SIZES = (1, 10, 100, 1000, 10_000, 100_000, 10**7)


@pytest.mark.parametrize("network", [*NETWORKS, "package.module:function"])
@pytest.mark.parametrize("samples", SIZES)
def test_a_schedule_is_valid(samples, network):
    settings = Settings(**schedule_for(samples, network))
    assert 10 <= settings.epochs <= 100
    assert 16 <= settings.batch_size <= 512
    assert settings.warm_up_epochs == settings.epochs
    assert settings.replace(**other_stages(settings.epochs)).dmi_epochs <= settings.epochs


def test_more_samples_get_larger_batches_and_fewer_epochs():
    made = [schedule_for(samples, "mlp") for samples in SIZES]
    for name, sign in (("batch_size", 1), ("epochs", -1), ("weight_decay", -1)):
        values = [sign * schedule[name] for schedule in made]
        assert values == sorted(values)
        assert values[0] != values[-1]


def test_the_network_decides_learning_rate_and_weight_decay():
    linear, mlp, lenet, other = (
        schedule_for(200, name) for name in ("linear", "mlp", "lenet5", "module:function")
    )
    assert (linear["lr"], mlp["lr"], other["lr"]) == (5e-3, 1e-3, 1e-3)
    assert (linear["weight_decay"], mlp["weight_decay"]) == (0.04, 0.03)
    assert (lenet["weight_decay"], other["weight_decay"]) == (1e-4, 1e-4)
    assert schedule_for(10_000, "linear")["weight_decay"] == pytest.approx(8e-4)
    assert set(COUNTING) <= mlp.keys()
    assert not set(COUNTING) & lenet.keys()


def test_given_epochs_are_kept():
    schedule = schedule_for(1000, "mlp", epochs=2)
    assert (schedule["epochs"], schedule["warm_up_epochs"], schedule["revision_epochs"]) == (
        2,
        2,
        1,
    )
    Settings(**other_stages(1))


def test_candidates_are_those_that_suit_the_shape_or_the_one_named():
    found = candidates(1000, (8,), epochs=9)
    assert list(found) == ["linear", "mlp"]
    for name, schedule in found.items():
        assert schedule == {**schedule_for(1000, name, 9), **other_stages(9)}
    assert list(candidates(1000, (3, 224, 224), "a.b:c")) == ["a.b:c"]
    with pytest.raises(ValueError, match=r"for images of 120 × 130 pixels: .* badly. Crop them."):
        candidates(1000, (3, 120, 130), advice="Crop them.")


def test_settings_that_belong_together_exist():
    assert {*SCHEDULE, *COUNTING} <= Settings.entries().keys()
