"""Schedules by epoch, and steps that are left out on the device."""

import pytest
import torch

from ptd_ext.engine.stage.optim import Schedule, skip_unless


def rates(schedule, epochs):
    optimiser = schedule.build([torch.nn.Parameter(torch.ones(2))])
    found = []
    for epoch in range(epochs):
        schedule.apply(optimiser, epoch, epochs)
        found.append(optimiser.param_groups[0]["lr"])
    return found


def test_steps():
    schedule = Schedule("sgd", 0.01, shape="steps", milestones=(2, 4))
    assert rates(schedule, 5) == pytest.approx([0.01, 0.01, 1e-3, 1e-3, 1e-4])


def test_linear_decay_over_the_last_share_of_epochs():
    schedule = Schedule("adam", 1.0, shape="linear", decay_from=0.4, late_beta1=0.1)
    assert rates(schedule, 5) == pytest.approx([1, 1, 1, 2 / 3, 1 / 3])
    optimiser = schedule.build([torch.nn.Parameter(torch.ones(2))])
    for epoch, beta in ((0, 0.9), (1, 0.9), (2, 0.1), (4, 0.1)):
        schedule.apply(optimiser, epoch, 5)
        assert optimiser.param_groups[0]["betas"][0] == beta


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_step_left_out_changes_nothing(kind):
    """That holds for the very first step, too."""

    def train(skips):
        parameter = torch.nn.Parameter(torch.ones(3))
        schedule = Schedule(kind, 0.1, weight_decay=0.1)
        optimiser = schedule.build([parameter])
        for number, skip in enumerate(skips):
            parameter.grad = torch.full((3,), float("nan") if skip else 1.0 + number % 2)
            with skip_unless(optimiser, torch.tensor(not skip)):
                optimiser.step()
            assert not hasattr(optimiser, "found_inf")
        return parameter.detach()

    expected = train([False, False])
    assert (expected != 1).all()
    assert torch.equal(train([False, False]), expected)
    # A gradient scaler's own finding counts too.
    parameter = torch.nn.Parameter(torch.ones(3))
    optimiser = Schedule(kind, 0.1).build([parameter])
    parameter.grad = torch.ones(3)
    optimiser.found_inf = torch.tensor(1.0)
    with skip_unless(optimiser, torch.tensor(True)):
        optimiser.step()
    assert torch.equal(parameter.detach(), torch.ones(3))
    for skips in ([True, True, False, False], [False, False, True], [True, True]):
        start = torch.ones(3) if all(skips) else expected
        assert torch.equal(train(skips), start), skips
