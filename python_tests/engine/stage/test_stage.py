"""A stage by itself: what it does unless a method overrides it."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.stage import Stage


def test_defaults():
    stage = Stage(Settings(epochs=7, lr=0.5))
    assert (stage.name, stage.epochs, stage.schedule.lr) == ("train", 7, 0.5)
    assert (stage.networks, stage.start, stage.keep_start) == (1, "fresh", False)
    assert stage.parameter_groups() == []
    assert stage.updates() is None
    assert stage.figures() == {}
    stage.check(SimpleNamespace(train_size=1, n_classes=2))
    stage.begin(None)
    stage.end_epoch(None, 0)
    stage.finish(None)
    with pytest.raises(NotImplementedError):
        stage.losses(None, [])


def test_validation_compares_the_softmax_with_noisy_labels():
    z = torch.randn(5, 3)
    torch.testing.assert_close(Stage(Settings()).noisy_posterior(z, None), z.softmax(-1))


def test_parameters_and_buffers_go_into_checkpoints():
    stage = Stage(Settings())
    stage.slack = nn.Parameter(torch.zeros(2, 2))
    stage.register_buffer("soft", torch.ones(3))
    stage.register_buffer("identity", torch.eye(2), persistent=False)
    assert stage.state_dict().keys() == {"slack", "soft"}
