"""T(x) from the warmed-up network: one matrix or parts, and what is printed about it."""

from types import SimpleNamespace

import pytest
import torch
from random_numbers import new_generator
from torch import nn

from ptd_ext import find_anchors, fit_part_transitions
from ptd_ext.engine.methods.transition_estimate import (
    anchor_options,
    estimate_transition,
    store_estimate,
)
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.state import StageOutputs
from ptd_ext.utils.distributed import Ranks

N, M, C, D = 120, 30, 3, 8


@pytest.fixture
def context():
    """The part of a trainer that the estimate uses."""
    generator = new_generator(0)
    posterior = torch.randn(N, C, generator=generator).mul(2).softmax(-1)
    features = {"train": (N, D), "validation": (M, D)}
    splits = {name: torch.rand(*shape, generator=generator) for name, shape in features.items()}
    data = SimpleNamespace(
        train_labels=posterior.argmax(-1),
        validation=range(M),
        train_clean=None,
        classes=C,
        n_classes=C,
    )
    lines = []
    return SimpleNamespace(
        data=data,
        problem=data,
        networks=[nn.Linear(D, C)],
        outputs=StageOutputs(pred_probs=posterior),
        predict=lambda network, split, features: SimpleNamespace(features=splits[split]),
        write_tensors=lambda name, state: None,
        observer=SimpleNamespace(anchor_accuracy=lambda ids: None),
        ranks=Ranks(),
        log=SimpleNamespace(info=lines.append, detail=lines.append),
        lines=lines,
    )


def test_options_of_anchors():
    settings = Settings(anchor_rule="percentile", anchor_band=(97.0, 97.0), anchor_count=1)
    options = anchor_options(settings)
    assert options == {"rule": "percentile", "band": (97.0, 97.0), "count": 1}
    assert find_anchors(torch.rand(50, 4).softmax(-1), **options).counts == [1] * 4


def test_one_matrix_needs_no_features(context):
    context.predict = None
    settings = Settings(n_parts=1)
    estimate = estimate_transition(context, settings)
    assert torch.equal(estimate.weights, torch.ones(N, 1))
    assert torch.equal(estimate.validation_weights, torch.ones(M, 1))
    assert estimate.basis is None
    anchors = find_anchors(context.outputs.pred_probs, **anchor_options(settings))
    fit = fit_part_transitions(
        estimate.weights, context.outputs.pred_probs, anchors, ridge=settings.ridge
    )
    torch.testing.assert_close(estimate.parts, fit.parts.to(estimate.parts.dtype))
    assert context.lines[0].startswith(f"anchors: {min(anchors.counts)} to {max(anchors.counts)} ")


def test_parts_are_mixed_by_weights_of_a_factorisation(context):
    estimate = estimate_transition(context, Settings(n_parts=2, seed=3))
    assert (estimate.weights.shape, estimate.validation_weights.shape) == ((N, 2), (M, 2))
    assert (estimate.parts.shape, estimate.basis.shape) == ((2, C, C), (2, D))
    torch.testing.assert_close(estimate.weights.sum(1), torch.ones(N))
    torch.testing.assert_close(estimate.parts.sum(-1), torch.ones(2, C))
    again = estimate_transition(context, Settings(n_parts=2, seed=3))
    assert torch.equal(again.parts, estimate.parts)


def test_the_noise_rate_is_printed(context):
    estimate = estimate_transition(context, Settings(n_parts=1))
    store_estimate(context, estimate)
    assert context.outputs.estimate is estimate
    assert "of labels wrong" in context.lines[-1]
