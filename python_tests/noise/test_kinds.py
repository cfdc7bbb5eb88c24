"""The registry of noise kinds, and that a new entry is all that a kind of noise needs."""

import dataclasses
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.cli import main
from ptd_ext.experiments.settings import ExperimentSettings
from ptd_ext.noise.generate import instance_dependent_noise, pairwise_noise
from ptd_ext.noise.kinds import KINDS, NoiseKind, check_kind

LABELS = torch.arange(60) % 3
FEATURES = torch.randn(60, 4, generator=new_generator(0))
HOOKS = Path(__file__).parents[2] / "docs" / "hooks.py"


def apply(kind, features=lambda: FEATURES, **settings):
    settings = SimpleNamespace(noise_input="standardised", **settings)
    return (
        KINDS[kind]
        .apply(features, LABELS, 0.4, n_classes=3, random_state=5, settings=settings)
        .noisy_labels
    )


def test_settings_are_passed_on():
    expected = instance_dependent_noise(
        FEATURES, LABELS, 0.4, random_state=5, n_classes=3, inputs="standardised"
    )
    assert torch.equal(apply("instance"), expected.noisy_labels)


def test_features_are_computed_only_if_they_are_needed():
    for name, kind in KINDS.items():
        if kind.needs_features:
            with pytest.raises(ZeroDivisionError):
                apply(name, features=lambda: 1 / 0)
        else:
            assert apply(name, features=lambda: 1 / 0).shape == (60,)


def test_unknown_kinds():
    for name in (*KINDS, "none"):
        check_kind(name)
    message = "noise must be one of instance, symmetric, pairwise or none; got 'asymmetric'"
    with pytest.raises(ValueError, match=message):
        ExperimentSettings(noise="asymmetric")


@pytest.fixture
def backwards(monkeypatch):
    """Noise that makes each class the one before it."""

    def make(labels, rate, *, random_state, n_classes):
        last = n_classes - 1
        made = pairwise_noise(last - labels, rate, random_state=random_state, n_classes=n_classes)
        noisy, rows = last - made.noisy_labels, made.rows.flip(1)
        return dataclasses.replace(made, labels=labels, noisy_labels=noisy, rows=rows)

    monkeypatch.setitem(KINDS, "backwards", NoiseKind(make, "the class before"))


@pytest.mark.usefixtures("backwards")
@pytest.mark.parametrize("command", ["train", "noise"])
def test_a_new_kind_is_in_the_help(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help-all"])
    assert "backwards" in capsys.readouterr().out


@pytest.mark.usefixtures("backwards")
def test_a_new_kind_is_in_the_docs():
    if not HOOKS.is_file():
        pytest.skip("the pages are not part of the wheel")
    spec = importlib.util.spec_from_file_location("hooks", HOOKS)
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    table = hooks.on_page_markdown("<!-- noise -->")
    assert "| `backwards` | the class before |" in table
    assert "| `instance` |" in table


@pytest.mark.usefixtures("backwards")
def test_a_new_kind_is_trained_with(tmp_path, capsys):
    pytest.importorskip("sklearn")
    quick = ["--epochs", "1", "--warm-up-epochs", "1", "--n-parts", "2", "--threads", "1"]
    noise = ["--noise", "backwards", "--rate", "0.3"]
    main(["train", "--method", "CE", "--dataset", "digits", *noise, *quick, "--out", str(tmp_path)])
    assert "CE" in capsys.readouterr().out
    assert 'noise = "backwards"' in (tmp_path / "settings.toml").read_text()
    main(["noise", "--dataset", "digits", *noise, "--out", str(tmp_path / "noise")])
    assert "backwards noise on digits, seed 0" in capsys.readouterr().out
