"""Joint: the loss and its regularisers, the ring of epochs, and which labels change."""

import copy
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
    random_batch,
    stub_run,
)
from random_numbers import new_generator

from ptd_ext.engine.methods.joint import JointFinal, JointLabels, joint_loss
from ptd_ext.engine.settings.settings import Settings


def loop_loss(logits, soft, alpha, beta):
    """The loss of Joint in Python's floats."""
    samples, classes = len(logits), len(logits[0])
    g = [[math.exp(v) / sum(map(math.exp, z)) for v in z] for z in logits]
    entropy = -sum(p * math.log(p) for row in g for p in row) / samples
    cross = -sum(
        s * math.log(p)
        for row, label in zip(g, soft, strict=True)
        for p, s in zip(row, label, strict=True)
    )
    mean = [sum(row[c] for row in g) / samples for c in range(classes)]
    divergence = sum(math.log(1 / classes / m) / classes for m in mean)
    return cross / samples + alpha * divergence + beta * entropy


@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (1, 0), (0, 1), (1.2, 0.8)])
def test_the_loss_is_that_of_a_loop(alpha, beta):
    labels, (z,) = random_batch(0, 7, 4)
    _, (other,) = random_batch(1, 7, 4)
    settings = Settings(joint_alpha=alpha, joint_beta=beta)
    stage = begun(JointLabels(settings), labels, 4)
    stage.soft.copy_(other.detach().softmax(-1))
    (loss,) = stage.losses(batch_of(labels), [z])
    assert loss.item() == pytest.approx(loop_loss(z.tolist(), stage.soft.tolist(), alpha, beta))
    soft = other.detach().softmax(-1)
    assert torch.autograd.gradcheck(lambda z: joint_loss(z.log_softmax(-1), soft, alpha, beta), z)


def regulariser(g, alpha, beta):
    """The terms of the loss besides cross entropy, at predictions [B, C]."""
    log_g = torch.tensor(g, dtype=torch.float64).log()
    soft = torch.zeros_like(log_g)
    return joint_loss(log_g, soft, alpha, beta).item()


def test_the_divergence_is_of_uniform_from_the_mean_prediction():
    assert regulariser([[0.7, 0.2, 0.1]], 1, 0) == pytest.approx(
        sum(math.log(1 / 3 / m) / 3 for m in (0.7, 0.2, 0.1))
    )  # the other way round it would be 0.297 instead of 0.324
    balanced = [[0.9, 0.1], [0.1, 0.9]]
    collapsed = [[0.9, 0.1], [0.9, 0.1]]
    assert regulariser(balanced, 1, 0) == pytest.approx(0)
    assert regulariser(collapsed, 1, 0) > 0.4
    # A step along the gradient goes away from the class that all have.
    z = torch.tensor([[2.0, 0.0], [2.0, 0.0]], requires_grad=True)
    joint_loss(z.log_softmax(-1), torch.zeros(2, 2), 1, 0).backward()
    assert (z.grad[:, 0] > 0).all()
    assert (z.grad[:, 1] < 0).all()


def test_the_entropy_is_to_become_small():
    assert regulariser([[0.5, 0.5]], 0, 1) == pytest.approx(math.log(2))
    assert regulariser([[0.99, 0.01]], 0, 1) < 0.06


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_confident_logits_have_a_finite_loss_and_gradient(dtype):
    z = torch.tensor([[300.0, 0.0, -300.0]] * 4, dtype=dtype, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 2])
    (loss,) = begun(JointLabels(Settings()), labels, 3).losses(batch_of(labels), [z])
    (gradient,) = gradients([loss], [z])
    assert loss.dtype == torch.float32
    # Cross entropies 0, 300, 600, 600; log ḡ is log g: 0, −300, −600; no entropy.
    assert loss.item() == pytest.approx(375 + (900 / 3 - math.log(3)))
    assert gradient.isfinite().all()
    assert (gradient[:, 2] < 0).all()  # the class that nobody has is asked for


@pytest.mark.parametrize(("average", "soft_from"), [(3, 4), (3, 2), (1, 1), (4, 0), (10, 3)])
def test_labels_are_the_mean_of_the_last_epochs_predictions(average, soft_from):
    samples, classes = 11, 3
    settings = Settings(joint_average=average, joint_soft_from=soft_from)
    g = new_generator(0)
    labels = torch.randint(classes, (samples,), generator=g)
    run = stub_run(labels, classes)
    stage = JointLabels(settings)
    stage.begin(run)
    given = F.one_hot(labels, classes).double()
    history, expected = [], given
    for epoch in range(9):
        torch.testing.assert_close(stage.soft.double(), expected, rtol=1e-6, atol=1e-6)
        z = 2 * torch.randn(samples, classes, generator=g, dtype=torch.float64)
        total = 0.0
        # Shuffled, in batches: what is stored is stored by id.
        for ids in torch.randperm(samples, generator=g).split(4):
            (loss,) = stage.losses(batch_of(labels[ids], epoch, ids=ids), [z[ids]])
            target = loop_loss(z[ids].tolist(), expected[ids].tolist(), 1.0, 0.5)
            assert loss.item() == pytest.approx(target, rel=1e-5)
            total += loss.item()
        assert total > 0
        stage.end_epoch(run, epoch)
        history.append(z.softmax(-1))
        # Epoch `soft_from` is the first with soft labels; before it there must be predictions.
        if epoch + 1 >= soft_from:
            expected = torch.stack(history[-average:]).mean(0)
    assert not torch.equal(expected, given)
    stage.finish(run)
    torch.testing.assert_close(run.outputs.soft_labels.double(), expected, rtol=1e-6, atol=1e-6)


def test_the_labels_change_that_the_predictions_contradict():
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    predicted = torch.tensor([0, 1, 1, 0, 2, 2, 0, 1])
    stage = begun(JointLabels(Settings(joint_soft_from=2, joint_average=2)), labels, 3)
    run = stub_run(labels, 3)
    for epoch in range(2):
        assert stage.figures() == {"relabelled": 0}
        stage.losses(batch_of(labels, epoch), [3.0 * F.one_hot(predicted, 3)])
        stage.end_epoch(run, epoch)
    assert stage.soft.argmax(-1).tolist() == predicted.tolist()
    assert stage.figures() == {"relabelled": 2 / 8}
    assert torch.equal(labels, torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]))


def test_a_sample_that_epochs_left_out_keeps_its_label():
    labels = torch.tensor([0, 1, 2])
    stage = begun(JointLabels(Settings(joint_soft_from=1, joint_average=2)), labels, 3)
    for epoch in range(3):
        stage.losses(batch_of(labels[:2], epoch), [torch.zeros(2, 3)])
        stage.end_epoch(None, epoch)
    third = 1 / 3
    torch.testing.assert_close(stage.soft, torch.tensor([[third] * 3, [third] * 3, [0, 0, 1.0]]))


def test_a_run_resumed_within_an_epoch_makes_the_same_labels():
    settings = Settings(joint_soft_from=2, joint_average=2)
    labels = torch.tensor([0, 1, 2, 0])
    whole = begun(JointLabels(settings), labels, 3)
    g = new_generator(0)
    for epoch in range(4):
        for ids in (torch.tensor([2, 0]), torch.tensor([1, 3])):
            z = torch.randn(2, 3, generator=g)
            if epoch == 3 and ids[0] == 1:
                resumed = begun(JointLabels(settings), labels, 3)
                resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
                (again,) = resumed.losses(batch_of(labels[ids], epoch, ids=ids), [z])
                resumed.end_epoch(None, epoch)
            (loss,) = whole.losses(batch_of(labels[ids], epoch, ids=ids), [z])
        whole.end_epoch(None, epoch)
    assert torch.equal(again, loss)  # the labels were soft already
    assert torch.equal(resumed.soft, whole.soft)
    assert torch.equal(resumed.recent, whole.recent)


@pytest.mark.parametrize("seed", range(4))
def test_training_corrects_most_wrong_labels_of_two_clusters(seed):
    g = new_generator(seed)
    truth = torch.arange(200) % 2
    inputs = torch.randn(200, 5, generator=g) + 3.0 * (truth[:, None] - 0.5)
    wrong = torch.rand(200, generator=g) < 0.3
    labels = torch.where(wrong, 1 - truth, truth)
    settings = Settings(joint_soft_from=5, joint_average=3, joint_epochs=10)
    stage = begun(JointLabels(settings), labels, 2)
    trained = Trained(stage, stage.schedule, 5, 2)
    for epoch in range(settings.joint_epochs):
        for ids in torch.randperm(200, generator=g).split(20):
            trained.step(inputs[ids], batch_of(labels[ids], epoch, ids=ids))
        stage.end_epoch(None, epoch)
    still_wrong = stage.soft.argmax(-1) != truth
    assert wrong.sum() > 50
    assert still_wrong.sum() < wrong.sum() / 4


def test_the_final_network_learns_the_soft_labels_of_its_samples():
    g = new_generator(0)
    run = stub_run(torch.zeros(9, dtype=torch.int64), 3)
    run.outputs.soft_labels = torch.randn(9, 3, generator=g).softmax(-1)
    stage = JointFinal(Settings())
    stage.begin(run)
    ids = torch.tensor([7, 2, 5, 0])
    z = torch.randn(4, 3, generator=g, requires_grad=True)
    (loss,) = stage.losses(batch_of(torch.zeros(4, dtype=torch.int64), ids=ids), [z])
    soft = run.outputs.soft_labels[ids]
    torch.testing.assert_close(loss, F.cross_entropy(z, soft))
    (gradient,) = gradients([loss], [z])
    torch.testing.assert_close(gradient, (z.softmax(-1) - soft).detach() / 4)


def test_schedules():
    settings = Settings(
        optimiser="adam", lr=0.5, schedule="linear", joint_lr=0.3, joint_epochs=4,
        joint_final_epochs=6, batch_size=32, weight_decay=0.25, momentum=0.75,
    )  # fmt: skip
    labels, final = JointLabels(settings), JointFinal(settings)
    first = labels.schedule
    assert (first.optimiser, first.lr, first.momentum, first.weight_decay) == (
        "sgd",
        0.3,
        0.75,
        0.25,
    )
    assert {first.factor(epoch, 4) for epoch in range(4)} == {1}
    assert (final.schedule.optimiser, final.schedule.lr, final.schedule.shape) == (
        "adam", 0.5, "linear",
    )  # fmt: skip
    assert (labels.epochs, final.epochs) == (4, 6)
    assert (labels.start, final.start) == ("fresh", "fresh")
    assert labels.batch_size == final.batch_size == 32


def test_nothing_waits_for_the_device():
    assert_never_waits(JointLabels, Settings(), epoch=80)
