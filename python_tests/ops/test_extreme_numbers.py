"""Numbers at which float32 would overflow, underflow or cancel on the way to a finite result."""

import pytest
import torch
from cases import each_device
from extreme_cases import (
    ROW_SUMS,
    assert_as_exact,
    converted,
    nearly_certain,
    outer_gradient,
    row_of_sum,
    ruled_out,
    tiny_column,
)

import ptd_ext
from ptd_ext.ops import reference

each_size = pytest.mark.parametrize("classes", [3, 17, 40])


@each_device
@each_size
@pytest.mark.parametrize(("row_sum", "empty"), ROW_SUMS.items())
def test_row_sums_that_have_no_inverse(classes, row_sum, empty, device):
    """A row whose sum is subnormal is uniform and has no gradient; any other is normalised."""
    arguments = converted(row_of_sum(classes, row_sum), torch.float32, device)
    logits, _, *transition = arguments
    matrix = ptd_ext.ops.transition_matrix(*transition)
    row = torch.full((classes,), 1 / classes) if empty else torch.eye(classes)[2]
    assert torch.equal(matrix[:, 1], row.to(device).expand(6, -1))
    # The other rows: a sum of C roundings, and a division.
    atol = (classes + 1) * torch.finfo(torch.float32).eps
    expected = reference.transition_matrix(*transition)
    torch.testing.assert_close(matrix, expected, rtol=0, atol=atol)

    results = {
        "noisy_posterior": ptd_ext.ops.noisy_posterior(logits, *transition),
        "clean_posterior": ptd_ext.clean_posterior(*arguments),
        "forward_loss": ptd_ext.forward_loss(*arguments, reduction="none"),
        "transition_matrix": matrix,
    }
    for name, result in results.items():
        given = {"noisy_posterior": (logits,), "transition_matrix": ()}.get(name, arguments[:2])
        options = {"reduction": "none"} if name == "forward_loss" else {}
        expected = getattr(reference, name)(*given, *transition, **options)
        torch.testing.assert_close(result, expected)
        grads = torch.autograd.grad(result, transition, outer_gradient(result))
        if empty:
            assert all(grad.isfinite().all() for grad in grads), name
            assert not grads[-1][1].any(), name


@each_device
@each_size
@pytest.mark.parametrize("gap", [5, 20, 25, 30])
def test_clean_posterior_of_a_class_that_is_nearly_certain(classes, gap, device):
    """The gradient of u is (G − ⟨G, q⟩) q / u: a difference of equals, over next to nothing."""
    arguments = converted(nearly_certain(classes, gap), torch.float32, device)
    exact = converted(arguments, torch.float64, device)
    result, expected = ptd_ext.clean_posterior(*arguments), reference.clean_posterior(*exact)
    assert_as_exact(result, expected)
    outer = outer_gradient(result)
    found = torch.autograd.grad(result, [arguments[0], *arguments[2:4]], outer)
    wanted = torch.autograd.grad(expected, [exact[0], *exact[2:4]], outer.double())
    for ours, theirs in zip(found, wanted, strict=True):
        assert_as_exact(ours, theirs)


@each_device
@each_size
@pytest.mark.parametrize("gap", [5, 60, 90, 300])
@pytest.mark.parametrize("own", [0.0, 1e-40, 1e-30])
@pytest.mark.parametrize("importance", ["detached", "attached"])
def test_importance_beyond_the_largest_number(classes, gap, own, importance, device):
    """β is infinite and the cross entropy zero in float32, but their product is a number."""
    options = {"reduction": "none", "smoothing": 0.0, "importance": importance}
    arguments = converted(ruled_out(classes, gap, own), torch.float32, device)
    exact = converted(arguments, torch.float64, device)
    loss = ptd_ext.reweight_loss(*arguments, **options)
    expected = reference.reweight_loss(*exact, **options)
    assert_as_exact(loss, expected)
    (found,) = torch.autograd.grad(loss, arguments[0], outer_gradient(loss))
    (wanted,) = torch.autograd.grad(expected, exact[0], outer_gradient(expected))
    assert_as_exact(found, wanted)
    bounded = ptd_ext.reweight_loss(*arguments, max_importance=2.0, **options)
    assert_as_exact(bounded, reference.reweight_loss(*exact, max_importance=2.0, **options))


@each_device
@each_size
@pytest.mark.parametrize("mass", [1e-15, 1e-19, 1e-20, 1e-25, 1e-30])
def test_attached_importance_of_a_tiny_column(classes, mass, device):
    """β² is beyond the largest number of float32 below a column sum of 1e-19; β · ℓ is not."""
    options = {"reduction": "none", "smoothing": 0.0, "importance": "attached"}
    arguments = converted(tiny_column(classes, mass), torch.float32, device)
    exact = converted(arguments, torch.float64, device)
    loss = ptd_ext.reweight_loss(*arguments, **options)
    expected = reference.reweight_loss(*exact, **options)
    assert_as_exact(loss, expected)
    (found,) = torch.autograd.grad(loss, arguments[0], outer_gradient(loss))
    (wanted,) = torch.autograd.grad(expected, exact[0], outer_gradient(expected))
    assert wanted.abs().max() > 1e-3 / mass
    assert_as_exact(found, wanted)
