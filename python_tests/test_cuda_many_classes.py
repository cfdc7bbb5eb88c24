"""A thousand classes with slack: the CUDA operators, run by the emulator, for numbers of parts."""

import pytest
import torch
from emulator.harness import compiler
from emulator.operators import emulated_operators

from ptd_ext import reference

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

SAMPLES, CLASSES = 3, 1000


def batch_of(r):
    generator = torch.Generator().manual_seed(r)

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


@pytest.mark.parametrize("r", [1, 10, 20, 33])
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
    tensors = (logits, labels, weights, parts, None, slack, None)
    options = (0, float("inf"), 0, -100, 1e-8)
    operators = emulated_operators()
    loss, total, saved = operators.transition_loss(*tensors, *options)
    near(loss, truth.detach())
    near(saved, (torch.einsum("nr,rik->nik", h, p) + s).clamp(min=0).sum(-1))
    needs = (True, False, False, False)
    dz = operators.transition_loss_backward(grad, *tensors, total, saved, *options, *needs)[0]
    near(dz, z.grad)


def check_clean_posterior(logits, labels, weights, parts, slack):
    truth = reference.clean_posterior(*exact(logits), labels, *exact(weights, parts, slack))
    tensors = (logits, labels, weights, parts, slack)
    posterior, _ = emulated_operators().clean_posterior(*tensors, -100, 1e-8)
    near(posterior, truth.detach())


def check_noisy_posterior(logits, _, weights, parts, slack):
    truth = reference.noisy_posterior(*exact(logits, weights, parts, slack))
    posterior, _ = emulated_operators().noisy_posterior(logits, weights, parts, slack)
    near(posterior, truth.detach())
