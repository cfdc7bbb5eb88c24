"""Nothing of size N·C² is allocated by a loss, forward or backward."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from cases import LOSSES, make_inputs, peak_bytes

import ptd_ext


def step_of(loss, inputs):
    def step():
        value = loss.fused(*inputs.arguments, **loss.options)
        torch.autograd.grad(value, inputs.leaves("logits", "slack"), allow_unused=True)

    return step


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("slack", [None, 1e-3, 0.1])
@pytest.mark.parametrize("size", [(128, 10, 10), (512, 10, 20), (128, 100, 20)], ids=str)
def test_a_step_holds_no_more_than_its_inputs(loss, slack, size):
    inputs = make_inputs(*size, slack=slack, dtype=torch.float32)
    inputs.weights.requires_grad_(False)
    inputs = replace(inputs, parts=ptd_ext.ops.prepare_parts(inputs.parts.detach()))
    leaves = (inputs.logits, inputs.weights, inputs.parts)
    allowed = sum(t.numel() * t.element_size() for t in leaves)
    peak = peak_bytes(step_of(loss, inputs))
    gradient = inputs.logits.numel() * inputs.logits.element_size()
    assert gradient <= peak <= allowed  # it saw at least the gradient of the logits


@pytest.mark.parametrize("sparse", [True, False])
def test_grows_with_samples_times_classes(sparse):
    """Doubling N may add a few [N, C] and [N, R], never N·C²."""
    sizes = {}
    for samples in (256, 512):
        inputs = make_inputs(samples, 60, 4, slack=0.01, sparse=sparse, dtype=torch.float32)
        sizes[samples] = peak_bytes(step_of(LOSSES[0], inputs))
    per_sample = (sizes[512] - sizes[256]) / 256 / 4
    assert per_sample < 4 * (60 + 4)


def test_parts_gradient_is_bounded_too():
    inputs = make_inputs(256, 20, 5, slack=0.01, dtype=torch.float32)
    torch.set_num_threads(2)

    def step():
        loss = ptd_ext.forward_loss(*inputs.arguments)
        torch.autograd.grad(loss, inputs.leaves())

    parts = inputs.parts.numel()
    rows = inputs.logits.numel() + inputs.weights.numel()
    assert peak_bytes(step) < 4 * (6 * parts + 4 * rows)


def part_sources():
    """Everything that hands out part transitions or one matrix, as the README uses it."""
    generator = torch.Generator().manual_seed(0)
    n_classes, samples = 40, 400
    labels = torch.arange(samples) % n_classes
    features = torch.randn(samples, 16, generator=generator)
    pred_probs = torch.randn(samples, n_classes, generator=generator).softmax(1)
    weights = torch.rand(samples, 6, generator=generator).softmax(1)
    anchors = ptd_ext.find_anchors(pred_probs)
    fitted = ptd_ext.fit_part_transitions(weights, pred_probs, anchors)
    learned = ptd_ext.fit_learned_parts(
        features, pred_probs, labels, n_parts=6, max_epochs=2, validation_mask=labels < 5
    )
    counts = ptd_ext.TransitionEM(labels, 0.3)
    return {
        "fit_part_transitions": fitted.parts,
        "class_transition": ptd_ext.transition.class_transition(pred_probs, anchors).parts,
        "neighbour_transition": ptd_ext.transition.neighbour_transition(features, labels).parts,
        "fit_learned_parts": learned.parts,
        "LearnedParts.part_transition": learned.part_transition().parts,
        "PartTransition": ptd_ext.PartTransition(fitted.parts.contiguous()).parts,
        "PartTransition.to": ptd_ext.PartTransition(fitted.parts).to(torch.float64).parts.float(),
        "TransitionEM.parts": counts.parts,
        "TransitionEM.transition": counts.transition,
        "TransitionEM.estimate": counts.estimate().parts,
        "ForwardLoss": ptd_ext.ForwardLoss(fitted.parts.contiguous()).parts,
    }


def test_what_is_handed_out_is_read_as_it_is():
    """No call of a loss lays it out again, which takes most of the time of many classes."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(64, 40, generator=generator).requires_grad_()
    labels = torch.arange(64) % 40
    for name, parts in part_sources().items():
        weights = None
        if parts.dim() == 3:
            weights = torch.rand(64, len(parts), generator=generator).softmax(1)

        def step_of_parts(parts, weights=weights):
            loss = ptd_ext.forward_loss(logits, labels, weights, parts)
            torch.autograd.grad(loss, logits)

        taken = peak_bytes(partial(step_of_parts, parts))
        copied = peak_bytes(partial(step_of_parts, parts.contiguous()))
        assert copied >= taken + parts.numel() * parts.element_size(), name
