"""Entries of T(x) + slack at zero or within rounding of it, and rows that they leave empty."""

import itertools

import pytest
import torch
from cases import Inputs, assert_same, each_device, make_inputs
from random_numbers import new_generator

import ptd_ext
from ptd_ext.ops import functional, reference

# Few classes are summed in registers, more in tiles or, with many samples, by sign tables.
SIZES = [(13, 5, 3), (13, 20, 4), (7, 40, 4), (13, 40, 4), (300, 40, 33)]
each_size = pytest.mark.parametrize("size", SIZES, ids=str)
OPERATORS = {
    "forward_loss": lambda m, i: m.forward_loss(*i.arguments, reduction="none"),
    "clean_posterior": lambda m, i: m.clean_posterior(*i.arguments),
    "noisy_posterior": lambda m, i: m.noisy_posterior(i.logits, *i.transition),
}
each_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


def zeros_among_entries(samples, classes, parts, dtype, device) -> Inputs:
    """Multiples of 1/256, whose sums are exact in every order, and slack that takes many to zero.

    A quarter of the entries is zero in all samples, without any help of the slack.
    """
    g = new_generator(classes)
    inputs = make_inputs(samples, classes, parts, slack=0.0, device=device)
    drawn = torch.nn.functional.one_hot(torch.randint(parts, (4, samples), generator=g), parts)
    weights = drawn.sum(0) / 4
    matrices = torch.randint(8, (parts, classes, classes), generator=g) / 64
    matrices[:, torch.rand(classes, classes, generator=g) < 0.25] = 0
    matrices[:, :, 0] += 1 / 8  # so that no row is empty
    slack = -torch.einsum("j,jik->ik", weights[0].double(), matrices.double())
    slack[:, 0] = 0
    slack[torch.rand(classes, classes, generator=g) < 0.2] = 0
    new = {"weights": weights, "parts": matrices, "slack": slack}
    for name, numbers in new.items():
        getattr(inputs, name).data.copy_(numbers)
    return inputs.to(dtype)


@each_device
@each_operator
@each_size
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries_exactly_at_zero(operator, size, dtype, device):
    """They count as clamped: no gradient, with whatever else the slack's is computed."""
    inputs = zeros_among_entries(*size, dtype, device)
    with torch.no_grad():
        entries = reference.transition_matrix(inputs.weights, inputs.parts) + inputs.slack
        assert ((entries == 0).sum((1, 2)) > 0).sum() > len(entries) / 2
    assert_same(lambda i: operator(functional, i), lambda i: operator(reference, i), inputs)
    names = ("logits", "weights", "parts")
    expected = operator(reference, inputs)
    outer = torch.linspace(-1, 2, expected.numel(), dtype=dtype, device=device).view(expected.shape)
    (wanted,) = torch.autograd.grad(expected, inputs.slack, outer)
    for count in range(3):
        for others in itertools.combinations(names, count):
            leaves = [inputs.slack, *inputs.leaves(*others)] if others else [inputs.slack]
            fixed = inputs.map(
                lambda t, leaves=leaves: t if any(t is k for k in leaves) else t.data
            )
            found = torch.autograd.grad(operator(functional, fixed), leaves, outer)[0]
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


# What remains of an entry, relative to the part; the sum of the weights. Sums of the same weights
# in another order are off by as much as these are.
CANCELLED = [(0, None), (0, 1 - 6e-8), (0, 1 + 1.2e-7), (1e-5, None), (1e-4, 1 - 6e-8)]


@each_device
@each_size
@pytest.mark.parametrize(("left", "weight_sum"), CANCELLED)
def test_rows_that_cancel_to_rounding(size, left, weight_sum, device):
    """The sign of an entry is no better known than its last digit, but rows sum to one.

    Row 1 is next to nothing. A row sum that has an entry which the column has not, or the other
    way round, or that has lost its digits, would be off by as much as the row is.
    """
    samples, classes, _ = size
    inputs = make_inputs(*size, slack=0.0, sparse=False, dtype=torch.float32, grad=False)
    inputs.parts[:] = inputs.parts[:1].clone()
    if weight_sum is not None:
        inputs.weights[:] = weight_sum * inputs.weights[:1].clone()
    inputs.slack[1] = (left - 1) * inputs.parts[0, 1]
    inputs.slack[1, -1] += 2e-7
    inputs.logits[:, 1] += 8
    logits, _, *transition = (t.to(device) for t in inputs.arguments)
    ones = torch.ones(samples, device=device)
    posterior = ptd_ext.ops.noisy_posterior(logits, *transition)
    torch.testing.assert_close(posterior.sum(1), ones, rtol=0, atol=1e-4)
    total = torch.zeros(samples, device=device)
    for label in range(classes):
        labels = torch.full((samples,), label, device=device)
        loss = ptd_ext.forward_loss(logits, labels, *transition, reduction="none")
        total += loss.neg().exp()
    torch.testing.assert_close(total, ones, rtol=0, atol=1e-4)


@each_device
@each_operator
@each_size
@pytest.mark.parametrize(
    ("weight_sum", "share"), [(0.4, 0.45), (0.97, 0.98), (1.03, 1.02), (1.5, 1.02)]
)
def test_weights_off_the_simplex(operator, size, weight_sum, share, device):
    """Slack takes `share` of the largest or smallest part, so that the sum decides on signs."""
    inputs = make_inputs(*size, slack=0.0, sparse=False, device=device)
    with torch.no_grad():
        inputs.weights.mul_(weight_sum)
        bound = inputs.parts.amin(0) if weight_sum < 1 else inputs.parts.amax(0)
        inputs.slack[:, ::2] = -share * bound[:, ::2]
    assert_same(lambda i: operator(functional, i), lambda i: operator(reference, i), inputs)


@each_device
@each_operator
@each_size
def test_negative_weights(operator, size, device):
    """They sum to one, but what is clamped is not between the parts."""
    inputs = make_inputs(*size, slack=0.0, sparse=False, device=device)
    with torch.no_grad():
        inputs.weights[::2, 0] -= 0.5
        inputs.weights[::2, 1] += 0.5
        inputs.slack[:, ::2] = -1.02 * inputs.parts.amax(0)[:, ::2]
    assert_same(lambda i: operator(functional, i), lambda i: operator(reference, i), inputs)


@each_device
@pytest.mark.parametrize("size", [(33, 10, 4), (21, 40, 3)], ids=str)
@pytest.mark.parametrize("gap", [-40, 0, 40])
def test_gradients_of_logits_through_rows_without_mass(size, gap, device):
    """An empty row is uniform in the gradient too, where it has all of the probability or none."""
    inputs = make_inputs(*size, slack=0.05, device=device)
    with torch.no_grad():
        inputs.slack[2] = -2.0
        inputs.logits[:, 2] += gap
    operator = OPERATORS["noisy_posterior"]
    assert_same(lambda i: operator(functional, i), lambda i: operator(reference, i), inputs)
