"""DMI: determinants, their gradient, and why noise of the class leaves them alone."""

import copy
import math

import numpy as np
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
    same,
)
from random_numbers import new_generator

from ptd_ext.engine.methods.dmi import FLOOR, DeterminantInformation, determinant
from ptd_ext.engine.settings.settings import Settings

# Rows are multiples of 1/10: ten copies of a sample can carry exactly these shares of labels.
TENTHS = np.array([[7, 2, 1], [0, 6, 4], [3, 0, 7]])


def numpy_determinant(logits, labels, per_sample):
    """|det| from the table of labels against predictions, filled in a loop."""
    z = logits.detach().numpy().astype(np.float64)
    g = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    table = np.zeros((z.shape[1], z.shape[1]))
    for row, label in zip(g, labels.tolist(), strict=True):
        table[label] += row
    return abs(np.linalg.det(table / len(z) if per_sample else table))


@pytest.mark.parametrize("per_sample", [True, False])
@pytest.mark.parametrize(("samples", "classes"), [(2, 2), (9, 3), (64, 5), (256, 10)])
def test_the_loss_is_that_of_numpys_determinant(samples, classes, per_sample):
    _, (z,) = random_batch(3, samples, classes)
    labels = torch.arange(samples) % classes
    size = numpy_determinant(z, labels, per_sample)
    found = determinant(z, labels, per_sample=per_sample)
    assert found.item() == pytest.approx(size, rel=1e-9, abs=0)
    stage = begun(DeterminantInformation(Settings(dmi_per_sample=per_sample)), labels, classes)
    (loss,) = stage.losses(batch_of(labels), [z])
    assert loss.item() == pytest.approx(-math.log(size + 1e-3), rel=1e-9)
    assert all(stage.updates())
    assert stage.figures()["log_det"] == pytest.approx(math.log(size))


def test_the_determinant_is_of_sums_by_default():
    _, (z,) = random_batch(3, 9, 3)
    labels = torch.arange(9) % 3
    stage = begun(DeterminantInformation(Settings()), labels, 3)
    (loss,) = stage.losses(batch_of(labels), [z])
    size = numpy_determinant(z, labels, per_sample=False)
    assert loss.item() == pytest.approx(-math.log(size + 1e-3), rel=1e-9)


@pytest.mark.parametrize("per_sample", [True, False])
@pytest.mark.parametrize(("samples", "classes"), [(2, 2), (9, 3), (17, 4)])
def test_the_gradient_is_that_of_differences(samples, classes, per_sample):
    _, (z,) = random_batch(3, samples, classes)
    labels = torch.arange(samples) % classes
    stage = begun(DeterminantInformation(Settings(dmi_per_sample=per_sample)), labels, classes)
    assert torch.autograd.gradcheck(lambda z: stage.losses(batch_of(labels), [z])[0], z)


def noisy_copies(labels):
    """Ten copies of every sample, labelled in exactly the shares of TENTHS; ids and labels."""
    ids = torch.arange(len(labels)).repeat_interleave(10)
    copies = [np.repeat(np.arange(3), TENTHS[label]) for label in labels.tolist()]
    return ids, torch.from_numpy(np.concatenate(copies))


def test_noise_of_the_class_changes_the_information_by_a_constant_only():
    constant = math.log(abs(np.linalg.det(TENTHS / 10)))
    assert constant < -1
    cross_entropies = []
    for seed in range(5):
        _, (z,) = random_batch(seed, 12, 3)
        labels = torch.arange(12) % 3
        ids, noisy = noisy_copies(labels)
        clean_log = determinant(z, labels).log()
        noisy_log = determinant(z[ids], noisy).log()
        assert (noisy_log - clean_log).item() == pytest.approx(constant)
        # So the gradients, and with them the network that is learned, are the same.
        torch.testing.assert_close(*gradients([noisy_log], [z]), *gradients([clean_log], [z]))
        change = F.cross_entropy(z[ids], noisy) - F.cross_entropy(z, labels)
        cross_entropies.append(change.item())
    assert max(cross_entropies) - min(cross_entropies) > 0.1  # as no constant is


def test_renamed_classes_have_the_same_loss():
    _, (z,) = random_batch(0, 30, 4)
    labels = torch.arange(30) % 4
    renamed = torch.tensor([2, 0, 3, 1])[labels]
    stage = begun(DeterminantInformation(Settings(dmi_per_sample=True)), labels, 4)
    losses = [stage.losses(batch_of(y), [z])[0].item() for y in (labels, renamed)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


def test_informative_predictions_have_a_smaller_loss():
    labels = torch.arange(30) % 3
    stage = begun(DeterminantInformation(Settings(dmi_per_sample=True)), labels, 3)
    right = F.one_hot(labels, 3).float()
    losses = [stage.losses(batch_of(labels), [s * right])[0].item() for s in (5.0, 1.0, 0.0)]
    assert losses == sorted(losses)
    assert losses[0] < losses[1] - 1
    assert losses[2] == pytest.approx(-math.log(FLOOR))


def test_divided_by_the_batch_ten_classes_have_next_to_no_gradient():
    labels = torch.arange(250) % 10
    z = (3.0 * F.one_hot(labels, 10)).double().requires_grad_()
    sizes = {}
    for per_sample in (True, False):
        stage = begun(DeterminantInformation(Settings(dmi_per_sample=per_sample)), labels, 10)
        sizes[per_sample] = gradients(stage.losses(batch_of(labels), [z]), [z])[0].norm().item()
    assert sizes[False] > 0.1
    assert sizes[True] < 1e-6 * sizes[False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_missing_class_gives_a_finite_loss_without_a_gradient(dtype):
    labels = torch.arange(20) % 3
    z = torch.randn(20, 4, generator=new_generator(0)).to(dtype).requires_grad_()
    stage = begun(DeterminantInformation(Settings(dmi_per_sample=True)), labels, 4)
    (loss,) = stage.losses(batch_of(labels), [z])
    assert loss.item() == pytest.approx(-math.log(FLOOR))
    assert loss.dtype == torch.float32
    (gradient,) = gradients([loss], [z])
    assert (gradient == 0).all()


@pytest.mark.parametrize("samples", [1, 3])
def test_a_batch_smaller_than_the_classes_is_dropped(samples):
    labels = torch.arange(8) % 4
    inputs = torch.randn(8, 5, generator=new_generator(0))
    stage = begun(
        DeterminantInformation(Settings(dmi_per_sample=True, dmi_lr=0.1, weight_decay=0.1)),
        labels,
        4,
    )
    trained = Trained(stage, stage.schedule, 5, 4)
    for _ in range(2):
        trained.step(inputs, batch_of(labels))
    figures, before = stage.figures(), trained.state()
    (loss,) = trained.step(inputs[:samples], batch_of(labels[:samples]))
    assert loss == 0
    assert not any(stage.updates())
    assert same(trained.state(), before)
    assert stage.figures() == figures
    trained.step(inputs[:4], batch_of(labels[:4]))  # as many as classes: not dropped
    assert all(stage.updates())
    assert not same(trained.state(), before)


def test_figures_are_of_the_epoch_also_after_a_resume():
    labels, (z,) = random_batch(3, 30, 3)
    stage = begun(DeterminantInformation(Settings(dmi_per_sample=True)), labels, 3)
    stage.losses(batch_of(labels[:15]), [z[:15]])
    resumed = begun(DeterminantInformation(Settings(dmi_per_sample=True)), labels, 3)
    resumed.load_state_dict(copy.deepcopy(stage.state_dict()))
    resumed.losses(batch_of(labels[15:]), [z[15:]])
    halves = [numpy_determinant(z[part], labels[part], True) for part in (slice(15), slice(15, 30))]
    assert halves[0] != pytest.approx(halves[1])
    assert resumed.figures()["log_det"] == pytest.approx(math.log(sum(halves) / 2))
    resumed.end_epoch(None, 0)
    resumed.losses(batch_of(labels[15:]), [z[15:]])
    assert resumed.figures()["log_det"] == pytest.approx(math.log(halves[1]))


def test_schedule():
    settings = Settings(
        optimiser="adam", schedule="linear", dmi_epochs=4, dmi_batch_size=64, weight_decay=0.25
    )
    stage = DeterminantInformation(settings)
    schedule = stage.schedule
    assert (schedule.optimiser, schedule.lr, schedule.momentum) == ("sgd", 1e-6, 0.9)
    assert schedule.weight_decay == 0.25
    assert {schedule.factor(epoch, 4) for epoch in range(4)} == {1}
    assert (stage.epochs, stage.batch_size, stage.start) == (4, 64, "best")


@pytest.mark.parametrize("samples", [2, 12])
def test_nothing_waits_for_the_device(samples):
    assert_never_waits(DeterminantInformation, Settings(), 3, samples)
