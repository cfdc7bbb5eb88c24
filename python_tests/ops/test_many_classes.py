"""Revised losses at many classes, where a table holds the signs that all samples share."""

import pytest
import torch
from cases import LOSSES, assert_same, make_inputs
from extreme_cases import converted, equal_terms
from hypothesis import given, settings
from hypothesis import strategies as st

import ptd_ext
from ptd_ext.ops import reference

REVISED = [loss for loss in LOSSES if loss.name in ("forward", "attached")]


@pytest.mark.parametrize("loss", REVISED, ids=str)
@pytest.mark.parametrize("slack", [0.0, 1e-6, 1e-3, 0.03, 0.3, 3.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
# More than 32 parts share the bits of the table; more than 256 samples are taken in turns.
@pytest.mark.parametrize(
    "size", [(7, 33, 2), (8, 32, 1), (65, 47, 9), (130, 100, 4), (270, 36, 70)], ids=str
)
def test_sparse_parts(loss, slack, dtype, size):
    inputs = make_inputs(*size, slack=slack, dtype=dtype)
    inputs.weights.requires_grad_(False)
    inputs.parts.requires_grad_(False)
    assert_same(
        lambda i: loss.fused(*i.arguments, **loss.options),
        lambda i: loss.defined(*i.arguments, **loss.options),
        inputs,
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(32, 50),
    parts=st.integers(1, 6),
    samples=st.integers(8, 70),
    scale=st.sampled_from([1e-3, 0.05, 0.5]),
    shape=st.sampled_from(["signed", "negative", "cancels", "rows", "scaled weights"]),
)
def test_signs_are_exact(seed, classes, parts, samples, scale, shape):
    """Structured slack: exact cancellation, whole rows clamped, weights off the simplex."""
    inputs = make_inputs(samples, classes, parts, slack=scale, seed=seed, grad=False)
    slack, weights = inputs.slack, inputs.weights
    if shape == "negative":
        slack = -slack.abs()
    elif shape == "cancels":
        # Entries of one part alone come out exactly zero; every other one, so that rows keep mass.
        slack[:, ::2] = -inputs.parts[0][:, ::2]
    elif shape == "rows":
        slack[::3] = -2.0
    elif shape == "scaled weights":
        weights = weights * torch.linspace(0.2, 3.0, samples, dtype=torch.float64)[:, None]
    results = []
    for function in (ptd_ext.forward_loss, reference.forward_loss):
        leaf = slack.clone().requires_grad_()
        loss = function(inputs.logits, inputs.labels, weights, inputs.parts, leaf)
        results.append((loss, *torch.autograd.grad(loss, leaf)))
    # An entry that cancels is rounded to zero or to 1e-17, beside a smoothing of 1e-8 / C.
    close = 1e-7 if shape == "cancels" else 1e-11
    torch.testing.assert_close(*[loss for loss, _ in results], rtol=close, atol=close)
    difference = (results[0][1] - results[1][1]).abs()
    if shape == "cancels":
        # At m = 0 up to rounding, whether an entry counts as clamped is rounding too.
        matrix = reference.transition_matrix(weights, inputs.parts) + slack
        difference[(matrix.abs() < 1e-14).any(0)] = 0
    assert difference.max() < close


def test_negative_weights_and_parts_are_evaluated_in_full():
    """Bounds do not decide them; the result must be right all the same."""
    for name in ("weights", "parts"):
        inputs = make_inputs(40, 40, 5, slack=0.05, grad=False)
        getattr(inputs, name).view(-1)[7] = -0.3
        results = [
            function(*inputs.arguments)
            for function in (ptd_ext.forward_loss, reference.forward_loss)
        ]
        torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", ["weights", "parts", "slack"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_finite_reaches_its_samples(name, value):
    inputs = make_inputs(40, 40, 5, slack=0.05, grad=False)
    getattr(inputs, name).view(-1)[7] = value
    results = [
        function(*inputs.arguments, reduction="none")
        for function in (ptd_ext.forward_loss, reference.forward_loss)
    ]
    torch.testing.assert_close(*results, equal_nan=True)


def test_weight_gradients_of_many_equal_terms():
    """Equal terms, of which every addition to a running sum would round in the same direction."""
    arguments, expected, scale, tolerance = equal_terms(1000)
    leaves = converted(arguments, torch.float32)
    loss = ptd_ext.forward_loss(*leaves, reduction="sum")
    (found,) = torch.autograd.grad(loss, leaves[2])
    assert abs(found.item() - expected) <= tolerance * scale
