"""Decoupling and Co-teaching+: which disputed samples are learned from, and when nothing is."""

import math

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
from random_numbers import new_generator

from ptd_ext.engine.methods.disagreement import CoTeachingPlus, Decoupling
from ptd_ext.engine.methods.small_loss import CoTeaching
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.optim import Schedule


def disputed_rows(logits):
    return {i for i, (a, b) in enumerate(zip(*logits, strict=True)) if a.argmax() != b.argmax()}


def chosen_rows(logits, labels, percent_kept):
    """The choice of Co-teaching+ for each network, in plain Python; None: the set is empty."""
    disputed = disputed_rows(logits)
    if not disputed:
        return None
    count = percent_kept * len(disputed) // 100 or len(disputed)
    choices = []
    for z in logits:
        losses = F.cross_entropy(z, labels, reduction="none").tolist()
        choices.append(set(sorted(disputed, key=losses.__getitem__)[:count]))
    return choices[::-1]


@pytest.mark.parametrize("seed", range(5))
def test_decoupling_learns_from_the_mean_over_disagreement(seed):
    labels, logits = random_batch(seed, 13, 3, networks=2)
    disputed = disputed_rows(logits)
    assert 0 < len(disputed) < 13
    stage = begun(Decoupling(Settings()), labels, 3)
    losses = stage.losses(batch_of(labels), logits)
    for z, loss, found in zip(logits, losses, gradients(losses, logits), strict=True):
        expected, gradient = mean_gradient(z, labels, disputed)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(found, gradient)
        assert rows_of(found) == disputed
    assert all(stage.updates())
    assert stage.figures() == {"disagreeing": len(disputed) / 13}


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("make", [Decoupling, CoTeachingPlus])
def test_without_disagreement_parameters_and_momentum_stay(make, first, optimiser):
    settings = Settings(ramp_epochs=0, disagreement_free_steps=5)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    inputs = torch.randn(6, 4, generator=new_generator(1))
    stage = begun(make(settings), labels, 3)
    trained = Trained(stage, Schedule(optimiser, 0.1, weight_decay=0.1), 4, 3)
    disputed = trained.networks[0](inputs).argmax(-1) != trained.networks[1](inputs).argmax(-1)
    assert disputed.any()
    if not first:
        trained.step(inputs, batch_of(labels, step=5))
    # For inputs of zero the logits are the biases, which agree.
    zeros = torch.zeros(6, 4)
    with torch.no_grad():
        for network in trained.networks:
            network.bias.copy_(torch.tensor([0.0, 2.0, 0.0]))
    before = trained.state()
    losses = trained.step(zeros, batch_of(labels, step=6))
    assert [loss.item() for loss in losses] == [0, 0]
    assert not any(stage.updates())
    after = trained.state()
    if first and optimiser == "adam":  # whose state a first step makes, of zeros
        states = [state for network in after for state in network["optimiser"]]
        assert all((value == 0).all() for state in states for value in state.values())
        for now, then in zip(after, before, strict=True):
            now["optimiser"] = then["optimiser"]
    assert same(after, before)
    # The same step with disagreement changes both.
    with torch.no_grad():
        trained.networks[0].bias.copy_(torch.tensor([5.0, 0.0, 0.0]))
    trained.step(zeros, batch_of(labels, step=7))
    for now, then in zip(trained.state(), before, strict=True):
        assert not torch.equal(now["weight"], then["weight"])
        assert not same(now["optimiser"], then["optimiser"])


@pytest.mark.parametrize("percent_kept", [20, 50, 60, 100])
def test_co_teaching_plus_chooses_as_plain_python_does(percent_kept):
    settings = Settings(
        forget_rate=1 - percent_kept / 100, ramp_epochs=0, disagreement_free_steps=0
    )
    sizes, exchanged = set(), 0
    for seed in range(60):
        labels, logits = random_batch(seed, 1 + seed % 17, 2 + seed % 3, networks=2)
        stage = begun(CoTeachingPlus(settings), labels, 2 + seed % 3)
        losses = stage.losses(batch_of(labels), logits)
        found = gradients(losses, logits)
        choices = chosen_rows(logits, labels, percent_kept)
        sizes.add(len(disputed_rows(logits)))
        if choices is None:
            assert not any(stage.updates())
            assert all(loss == 0 for loss in losses)
            assert all((gradient == 0).all() for gradient in found)
            continue
        exchanged += choices[0] != choices[1]
        assert all(stage.updates())
        for z, rows, loss, gradient in zip(logits, choices, losses, found, strict=True):
            expected, expected_gradient = mean_gradient(z, labels, rows)
            assert rows_of(gradient) == rows
            torch.testing.assert_close(loss, expected)
            torch.testing.assert_close(gradient, expected_gradient)
    assert {0, 1, 2, 5, 8} <= sizes
    assert exchanged > 10 or percent_kept == 100


def test_co_teaching_plus_keeps_all_of_a_set_too_small_to_share():
    labels = torch.tensor([0, 0, 0, 0])
    logits = [torch.zeros(4, 2, requires_grad=True) for _ in range(2)]
    with torch.no_grad():
        logits[0][2, 1] = 1.0
    stage = begun(CoTeachingPlus(Settings(rate=0.4, ramp_epochs=0)), labels, 2)
    found = gradients(stage.losses(batch_of(labels, step=10**6), logits), logits)
    assert [rows_of(gradient) for gradient in found] == [{2}, {2}]  # ⌊0.6 · 1⌋ = 0


@pytest.mark.parametrize("step", [0, 4, 5, 6])
def test_co_teaching_plus_in_agreement_takes_the_whole_batch_early_only(step):
    labels, (z,) = random_batch(0, 9, 3)
    logits = [z, (2 * z.detach()).requires_grad_()]
    stage = begun(CoTeachingPlus(Settings(ramp_epochs=0, disagreement_free_steps=5)), labels, 3)
    losses = stage.losses(batch_of(labels, step=step), logits)
    found = gradients(losses, logits)
    assert [bool(update) for update in stage.updates()] == [step < 5] * 2
    for z, loss, gradient in zip(logits, losses, found, strict=True):
        if step < 5:
            torch.testing.assert_close(loss, F.cross_entropy(z, labels))
            assert rows_of(gradient) == set(range(9))
        else:
            assert loss == 0
            assert rows_of(gradient) == set()
    assert stage.figures() == {"kept": float(step < 5), "disagreeing": 0}


def test_co_teaching_plus_is_co_teaching_until_its_start():
    settings = Settings(rate=0.4, ramp_epochs=3, disagreement_start=4)
    labels, logits = random_batch(1, 14, 3, networks=2)
    disputed = disputed_rows(logits)
    assert 0 < len(disputed) < 14
    for epoch in range(6):
        pair = []
        for make in (CoTeaching, CoTeachingPlus):
            stage = begun(make(settings), labels, 3)
            pair.append(gradients(stage.losses(batch_of(labels, epoch), logits), logits))
        alike = [torch.equal(a, b) for a, b in zip(*pair, strict=True)]
        assert alike == [epoch < 4] * 2
        if epoch >= 4:
            assert all(rows_of(gradient) <= disputed for gradient in pair[1])
        assert stage.figures()["disagreeing"] == len(disputed) / 14


def test_infinite_losses_never_let_undisputed_samples_in():
    labels, logits = random_batch(0, 8, 3, networks=2)
    disputed = disputed_rows(logits)
    stage = begun(CoTeachingPlus(Settings(rate=0.1, ramp_epochs=0)), labels, 3)
    infinite = [torch.full((8,), math.inf)] * 2
    assert 0 < len(disputed) < 8
    for mask in stage.choose(batch_of(labels), logits, infinite):
        assert set(mask.nonzero()[:, 0].tolist()) <= disputed


@pytest.mark.parametrize("make", [Decoupling, CoTeachingPlus])
def test_counts_restart_with_every_epoch(make):
    labels, logits = random_batch(1, 12, 3, networks=2)
    stage = begun(make(Settings(ramp_epochs=0)), labels, 3)
    stage.losses(batch_of(labels), logits)
    one = stage.figures()
    assert one["disagreeing"] == len(disputed_rows(logits)) / 12 > 0
    stage.end_epoch(None, 0)
    assert set(stage.figures().values()) == {0}
    stage.losses(batch_of(labels, 1), logits)
    assert stage.figures() == one
    assert set(stage.tallies) <= stage.state_dict().keys()


@pytest.mark.parametrize("make", [Decoupling, CoTeachingPlus])
def test_nothing_waits_for_the_device(make):
    assert_never_waits(make, Settings(), epoch=3)
