"""MentorNet and Co-teaching: how many samples are kept, which, and who learns from them."""

import copy

import pytest
import torch
import torch.nn.functional as F
from engine.methods.method_cases import (
    Trained,
    assert_never_waits,
    batch_of,
    begun,
    gradients,
    mean_gradient,
    random_batch,
    rows_of,
    same,
)

from ptd_ext.engine.methods.small_loss import CoTeaching, MentorNet
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.optim import Schedule


def small_loss_rows(logits, labels, count):
    """The rows of the `count` smallest losses, in plain Python."""
    losses = F.cross_entropy(logits, labels, reduction="none").tolist()
    return set(sorted(range(len(losses)), key=losses.__getitem__)[:count])


def kept_rows(make, settings, epoch, samples=10, seed=0):
    labels, logits = random_batch(seed, samples, 4, make.networks)
    stage = begun(make(settings), labels, 4)
    return [rows_of(g) for g in gradients(stage.losses(batch_of(labels, epoch), logits), logits)]


@pytest.mark.parametrize("make", [MentorNet, CoTeaching])
@pytest.mark.parametrize(
    ("ramp", "counts"),
    [
        (5, [10, 9, 8, 7, 6, 6, 6]),
        (10, [10, 9, 9, 8, 8, 7, 7, 6, 6, 6, 6]),
        (2, [10, 6, 6]),
        (1, [10, 6, 6]),
        (0, [6, 6]),
    ],
)
def test_the_share_left_out_rises_over_the_ramp(make, ramp, counts):
    settings = Settings(rate=0.4, ramp_epochs=ramp)
    for epoch, count in enumerate(counts):
        for rows in kept_rows(make, settings, epoch):
            assert len(rows) == count


@pytest.mark.parametrize(
    ("left_out", "samples", "count"),
    [
        (0.4, 10, 6),
        (0.8, 10, 2),  # (1 − 0.8) · 10 is 1.9999999999999996 in floats
        (0.9, 10, 1),
        (0.34, 50, 33),
        (0.1 + 0.2, 10, 7),
        (0.5, 7, 3),
        (0.0, 9, 9),
    ],
)
def test_the_count_is_the_floor_of_the_exact_product(left_out, samples, count):
    settings = Settings(rate=0.1, forget_rate=left_out, ramp_epochs=0)
    (rows,) = kept_rows(MentorNet, settings, 0, samples)
    assert len(rows) == count


@pytest.mark.parametrize("seed", range(5))
def test_mentornet_learns_from_its_own_small_losses(seed):
    labels, logits = random_batch(seed, 11, 5)
    stage = begun(MentorNet(Settings(rate=0.4, ramp_epochs=0)), labels, 5)
    losses = stage.losses(batch_of(labels), logits)
    rows = small_loss_rows(logits[0], labels, 6)
    expected, gradient = mean_gradient(logits[0], labels, rows)  # divided by 6, and once
    torch.testing.assert_close(losses[0], expected)
    torch.testing.assert_close(gradients(losses, logits)[0], gradient)


@pytest.mark.parametrize("seed", range(5))
def test_co_teaching_learns_from_the_small_losses_of_the_peer(seed):
    labels, logits = random_batch(seed, 11, 5, networks=2)
    stage = begun(CoTeaching(Settings(rate=0.4, ramp_epochs=0)), labels, 5)
    losses = stage.losses(batch_of(labels), logits)
    found = gradients(losses, logits)
    choices = [small_loss_rows(z, labels, 6) for z in logits]
    assert choices[0] != choices[1]
    for own in (0, 1):
        peer = 1 - own
        assert rows_of(found[own]) == choices[peer]
        expected, gradient = mean_gradient(logits[own], labels, choices[peer])
        torch.testing.assert_close(losses[own], expected)
        torch.testing.assert_close(found[own], gradient)


def test_wrong_labels_are_what_is_left_out():
    truth = torch.arange(20) % 4
    wrong = torch.arange(20) < 8
    labels = torch.where(wrong, (truth + 1) % 4, truth)
    z = (3.0 * F.one_hot(truth, 4)).requires_grad_()
    stage = begun(MentorNet(Settings(rate=0.4, ramp_epochs=0)), labels, 4)
    (gradient,) = gradients(stage.losses(batch_of(labels), [z]), [z])
    assert rows_of(gradient) == set((~wrong).nonzero()[:, 0].tolist())


def test_of_equal_losses_as_many_are_kept_as_of_others():
    labels = torch.zeros(10, dtype=torch.int64)
    z = torch.zeros(10, 3, requires_grad=True)
    stage = begun(MentorNet(Settings(rate=0.4, ramp_epochs=0)), labels, 3)
    (gradient,) = gradients(stage.losses(batch_of(labels), [z]), [z])
    assert rows_of(gradient) == set(range(6))


def test_a_sample_without_a_finite_loss_is_left_out():
    labels, (z,) = random_batch(0, 10, 3)
    z = z.detach().clone()
    z[4] = torch.nan
    z.requires_grad_()
    stage = begun(MentorNet(Settings(rate=0.4, ramp_epochs=0)), labels, 3)
    (loss,) = stage.losses(batch_of(labels), [z])
    assert loss.isfinite()


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("steps_before", [0, 2])
def test_a_batch_of_which_nothing_is_kept_changes_nothing(optimiser, steps_before):
    labels, inputs = torch.tensor([0, 1, 2, 1]), torch.randn(4, 5)
    stage = begun(CoTeaching(Settings(rate=0.4, ramp_epochs=0)), labels, 3)
    trained = Trained(stage, Schedule(optimiser, 0.1, weight_decay=0.1), 5, 3)
    for _ in range(steps_before):
        trained.step(inputs, batch_of(labels))
    before = trained.state()
    losses = trained.step(inputs[:1], batch_of(labels[:1]))  # ⌊0.6 · 1⌋ = 0
    if steps_before:
        assert same(trained.state(), before)
    else:  # Adam makes its state in its first step, here of zeros
        after = trained.state()
        for now, then in zip(after, before, strict=True):
            assert torch.equal(now["weight"], then["weight"])
            assert all((v == 0).all() for state in now["optimiser"] for v in state.values())
    assert [loss.item() for loss in losses] == [0, 0]
    trained.step(inputs, batch_of(labels))
    changed = trained.state()
    assert all(
        not torch.equal(a["weight"], b["weight"]) for a, b in zip(changed, before, strict=True)
    )


def test_figures_are_shares_of_the_epoch_also_after_a_resume():
    settings = Settings(rate=0.5, ramp_epochs=0)
    labels, logits = random_batch(0, 10, 4, networks=2)
    stage = begun(CoTeaching(settings), labels, 4)
    assert stage.figures() == {"kept": 0}
    stage.losses(batch_of(labels), logits)
    resumed = begun(CoTeaching(settings), labels, 4)
    resumed.load_state_dict(copy.deepcopy(stage.state_dict()))
    resumed.losses(batch_of(labels[:3]), [z[:3] for z in logits])
    assert resumed.figures() == {"kept": 6 / 13}
    resumed.end_epoch(None, 0)
    resumed.losses(batch_of(labels[:3]), [z[:3] for z in logits])
    assert resumed.figures() == {"kept": 1 / 3}


@pytest.mark.parametrize("make", [MentorNet, CoTeaching])
def test_schedule_and_networks_are_those_of_the_settings(make):
    settings = Settings(epochs=7, batch_size=9, optimiser="adam", lr=0.5, schedule="linear")
    stage = make(settings)
    assert (stage.epochs, stage.batch_size) == (7, 9)
    assert stage.schedule == Schedule.of(settings)
    assert stage.networks == (2 if make is CoTeaching else 1)


@pytest.mark.parametrize("make", [MentorNet, CoTeaching])
def test_half_precision_logits_have_a_float32_loss(make):
    labels, logits = random_batch(0, 12, 4, make.networks)
    half = [z.detach().bfloat16().requires_grad_() for z in logits]
    stage = begun(make(Settings()), labels, 4)
    full = [h.detach().double() for h in half]
    for loss, expected in zip(
        stage.losses(batch_of(labels, 12), half),
        stage.losses(batch_of(labels, 12), full),
        strict=True,
    ):
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [MentorNet, CoTeaching])
def test_nothing_waits_for_the_device(make):
    assert_never_waits(make, Settings(), epoch=3)
