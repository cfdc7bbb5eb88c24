"""A thousand classes: the CUDA operators, run by the emulator, against the float64 definition."""

from functools import partial

import pytest
import torch
from emulator.harness import compiler
from emulator.operators import emulated
from extreme_cases import equal_terms
from random_numbers import new_generator

from ptd_ext.ops import reference

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
    pytest.mark.slow,
]

SAMPLES, CLASSES = 3, 1000


def batch_of(r):
    generator = new_generator(r)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    return (
        2 * normal(SAMPLES, CLASSES),
        torch.randint(CLASSES, (SAMPLES,), generator=generator),
        normal(SAMPLES, r).softmax(-1),
        reference.project_transition(normal(r, CLASSES, CLASSES)),
        1e-3 * normal(CLASSES, CLASSES),
    )


def near(actual, expected):
    scale = expected.abs().max().item()
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=3e-5 * scale)


def exact(*tensors):
    return [tensor.double() for tensor in tensors]


@pytest.mark.parametrize("r", [1, 11])
def test_slack(r):
    batch = batch_of(r)
    check_loss(*batch)
    check_clean_posterior(*batch)
    check_noisy_posterior(*batch)


def check_loss(logits, labels, weights, parts, slack):
    z, h, p, s = exact(logits, weights, parts, slack)
    z.requires_grad_()
    truth = reference.forward_loss(z, labels, h, p, s, reduction="none")
    grad = torch.arange(1.0, SAMPLES + 1)
    (truth * grad).sum().backward()
    tensors = (logits, labels, weights, parts, slack, None)
    options = (0, float("inf"), 0, -100, 1e-8)
    with emulated(check=False) as operators:
        loss, total, saved = operators.transition_loss(*tensors, *options)
    near(loss, truth.detach())
    near(saved, (torch.einsum("nr,rik->nik", h, p) + s).clamp(min=0).sum(-1))
    needs = (True, False, False, False)
    with emulated(check=False) as operators:
        dz = operators.transition_loss_backward(grad, *tensors, total, saved, *options, *needs)[0]
    near(dz, z.grad)


def check_clean_posterior(logits, labels, weights, parts, slack):
    truth = reference.clean_posterior(*exact(logits), labels, *exact(weights, parts, slack))
    tensors = (logits, labels, weights, parts, slack)
    with emulated(check=False) as operators:
        posterior, _ = operators.clean_posterior(*tensors, -100, 1e-8)
    near(posterior, truth.detach())


def check_noisy_posterior(logits, _, weights, parts, slack):
    truth = reference.noisy_posterior(*exact(logits, weights, parts, slack))
    with emulated(check=False) as operators:
        posterior, _ = operators.noisy_posterior(logits, weights, parts, slack)
    near(posterior, truth.detach())


NEEDED = (True, True, True)  # gradients of logits, weights and parts
REDUCTION_NONE, FORWARD, ATTACHED = 0, 0, 2


def clear_batch_of(r, slack):
    """A batch whose entries of T(x) + slack are far enough from zero to have a clear sign."""
    logits, labels, weights, parts, revision = batch_of(r)
    if not slack:
        return logits, labels, weights, parts, None
    matrix = torch.einsum("nr,rik->nik", *exact(weights, parts)) + revision.double()
    revision[(matrix.abs() < 1e-8).any(0)] += 1e-5
    return logits, labels, weights, parts, revision


def define_gradients(definition, grad, batch):
    """Gradients of sum(grad * definition(...)): of logits, weights, parts and slack."""
    logits, labels, *matrix = batch
    given = [None if t is None else t.double().requires_grad_() for t in (logits, *matrix)]
    definition(given[0], labels, *given[1:]).backward(grad.double())
    return [None if t is None else t.grad for t in given]


def test_weight_gradients_of_many_equal_terms():
    """Equal terms, of which every addition to a running sum would round in the same direction."""
    batch, expected, scale, tolerance = equal_terms(CLASSES)
    logits, labels, *matrix = batch
    tensors, options = (logits, labels, *matrix, None), (FORWARD, float("inf"), 0, -100, 1e-8)
    with emulated(check=False) as operators:
        _, total, saved = operators.transition_loss(*tensors, *options)
        arguments = (torch.ones(1), *tensors, total, saved, *options)
        _, found, _, _ = operators.transition_loss_backward(*arguments, False, True, False, False)
    assert abs(found.item() - expected) <= tolerance * scale


def compare_gradients(found, expected, labels):
    """Compare all, then without the labels' columns, whose gradients are by far the largest."""
    others = torch.ones(CLASSES, dtype=torch.bool)
    others[labels] = False
    for actual, wanted in zip(found, expected, strict=True):
        if wanted is None:
            assert actual.numel() == 0
            continue
        near(actual, wanted)
        if wanted.shape[-2:] == (CLASSES, CLASSES):
            near(actual[..., others], wanted[..., others])


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("importance", [FORWARD, ATTACHED])
def test_gradients_of_the_losses(importance, slack):
    batch = clear_batch_of(2, slack)
    logits, labels, weights, parts, revision = batch
    loss = partial(reference.forward_loss, reduction="none")
    if importance == ATTACHED:
        loss = partial(reference.reweight_loss, reduction="none", importance="attached")
    grad = torch.arange(1.0, SAMPLES + 1)
    expected = define_gradients(loss, grad, batch)
    tensors = (logits, labels, weights, parts, revision, None)
    options = (importance, float("inf"), REDUCTION_NONE, -100, 1e-8)
    with emulated(check=False) as operators:
        _, total, saved = operators.transition_loss(*tensors, *options)
        found = operators.transition_loss_backward(
            grad, *tensors, total, saved, *options, *NEEDED, slack
        )
    compare_gradients(found, expected, labels)


@pytest.mark.parametrize("slack", [False, True])
def test_gradients_of_clean_posterior(slack):
    batch = clear_batch_of(3, slack)
    grad = torch.randn(SAMPLES, CLASSES, generator=new_generator(1))
    expected = define_gradients(reference.clean_posterior, grad, batch)
    options = (-100, 1e-8)
    with emulated(check=False) as operators:
        _, saved = operators.clean_posterior(*batch, *options)
        found = operators.clean_posterior_backward(grad, *batch, saved, *options, *NEEDED, slack)
    compare_gradients(found, expected, batch[1])


@pytest.mark.parametrize("slack", [False, True])
def test_gradients_of_noisy_posterior(slack):
    batch = clear_batch_of(3, slack)
    logits, labels, *matrix = batch
    grad = torch.randn(SAMPLES, CLASSES, generator=new_generator(1))
    expected = define_gradients(
        lambda z, _, *rest: reference.noisy_posterior(z, *rest), grad, batch
    )
    with emulated(check=False) as operators:
        _, saved = operators.noisy_posterior(logits, *matrix)
        found = operators.noisy_posterior_backward(grad, logits, *matrix, saved, *NEEDED, slack)
    compare_gradients(found, expected, labels)
