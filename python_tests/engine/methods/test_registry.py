"""The registry: every entry is complete, and its stages can be made and checked."""

from types import SimpleNamespace

import pytest

from ptd_ext.engine.methods.registry import METHODS, Method, listing, stages_of
from ptd_ext.engine.methods.transition import CrossEntropy, WarmUp
from ptd_ext.engine.settings.settings import Settings


def size(train_size=100, n_classes=4):
    return SimpleNamespace(train_size=train_size, n_classes=n_classes)


@pytest.mark.parametrize("name", METHODS)
def test_an_entry_is_complete(name):
    method = METHODS[name]
    assert 10 < len(method.help) < 90
    assert method.defaults.keys() <= Settings.entries().keys() - {"n_parts"}
    settings = Settings(method=name, rate=0.3).replace(**method.defaults)
    stages = stages_of(settings, size())
    assert isinstance(stages[0], WarmUp) == (method.kind != "none")


def test_listing_has_one_line_per_method(monkeypatch):
    monkeypatch.setitem(METHODS, "A-new-method-of-a-long-name", Method(list, help="a new one"))
    lines = listing().splitlines()
    assert [line.split()[0] for line in lines] == list(METHODS)
    assert lines[-1] == "A-new-method-of-a-long-name  a new one"
    assert len({line.index(METHODS[line.split()[0]].help) for line in lines}) == 1


def test_an_unknown_method_is_an_error_with_the_known_ones():
    with pytest.raises(ValueError, match=r"method must be one of CE, .*PTD-L-V; got 'PTD'"):
        stages_of(Settings(method="PTD"), size())


@pytest.mark.parametrize(
    ("settings", "data", "message"),
    [
        ({"method": "DMI", "dmi_batch_size": 3}, size(), "at least the number of classes, 4"),
        ({"method": "EM-F", "class_prior": "0.5,0.5"}, size(), "class_prior must have 4 shares"),
        ({"method": "PTD-L", "class_prior": "0.5,0.5"}, size(), "class_prior must have 4 shares"),
        ({"method": "CE"}, size(n_classes=1), "at least 2 classes; got 1"),
        ({"method": "MentorNet"}, size(), "forget_rate must be given: MentorNet leaves out"),
        ({"method": "Co-teaching", "rate": 0.995}, size(), "at least one .* batch of 100"),
        ({"method": "Co-teaching+", "forget_rate": 1.0}, size(9), "one sample of a batch of 9"),
    ],
)
def test_settings_that_cannot_train_on_the_data_are_an_error(settings, data, message):
    made = Settings(**settings)
    METHODS[made.method].stages(made)
    with pytest.raises(ValueError, match=message):
        stages_of(made, data)


def test_a_method_of_its_own_stages(monkeypatch):
    monkeypatch.setitem(METHODS, "Mine", Method(lambda s: [CrossEntropy(s, "mine")]))
    (stage,) = stages_of(Settings(method="Mine"), size())
    assert stage.name == "mine"
