"""The cases of test_extreme_numbers.py on the emulated CUDA operators."""

import pytest
import torch
from cuda_cases import Batch, check_posterior, define_loss, run_loss, run_noisy, run_posterior
from emulator.harness import compiler
from extreme_cases import (
    ROW_SUMS,
    assert_as_exact,
    nearly_certain,
    outer_gradient,
    row_of_sum,
    ruled_out,
    tiny_column,
)

from ptd_ext.ops import reference

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

# A thread, a warp and a block per sample.
each_mapping = pytest.mark.parametrize("classes", [10, 20, 130])
TRANSITION = ("weights", "parts", "slack")


@each_mapping
@pytest.mark.parametrize(("row_sum", "empty"), ROW_SUMS.items())
def test_row_sums_that_have_no_inverse(classes, row_sum, empty):
    batch = Batch(*row_of_sum(classes, row_sum))
    expected = reference.noisy_posterior(batch.logits, *batch.matrix)
    outer = outer_gradient(expected)
    noisy, grads = run_noisy(batch, outer, wanted=TRANSITION)
    torch.testing.assert_close(noisy, expected)
    loss, loss_grads = run_loss(batch, "none", wanted=TRANSITION)
    torch.testing.assert_close(loss, define_loss(batch, "none"))
    clean, clean_grads = run_posterior(batch, outer, wanted=TRANSITION)
    torch.testing.assert_close(clean, batch.define(reference.clean_posterior))
    for found in (grads, loss_grads, clean_grads) if empty else ():
        assert all(grad.isfinite().all() for grad in found.values())
        assert not found["slack"][1].any()


@each_mapping
@pytest.mark.parametrize("gap", [20, 30])
def test_clean_posterior_of_a_class_that_is_nearly_certain(classes, gap):
    check_posterior(Batch(*nearly_certain(classes, gap)))


@each_mapping
@pytest.mark.parametrize(("gap", "own"), [(5, 0.0), (90, 0.0), (90, 1e-40)])
@pytest.mark.parametrize("importance", ["detached", "attached"])
def test_importance_beyond_the_largest_number(classes, gap, own, importance):
    batch = Batch(*ruled_out(classes, gap, own), smoothing=0.0)
    exact = batch.double()
    expected = define_loss(exact, "none", importance)
    loss, grads = run_loss(batch, "none", importance, grad=outer_gradient(expected))
    assert_as_exact(loss, expected)
    (wanted,) = torch.autograd.grad(expected, exact.logits, outer_gradient(expected))
    assert_as_exact(grads["logits"], wanted)
    bounded, _ = run_loss(batch, "none", importance, 2.0, wanted=())
    assert_as_exact(bounded, define_loss(exact, "none", importance, 2.0))


@each_mapping
@pytest.mark.parametrize("mass", [1e-19, 1e-25])
def test_attached_importance_of_a_tiny_column(classes, mass):
    batch = Batch(*tiny_column(classes, mass), smoothing=0.0)
    exact = batch.double()
    expected = define_loss(exact, "none", "attached")
    loss, grads = run_loss(batch, "none", "attached", grad=outer_gradient(expected))
    assert_as_exact(loss, expected)
    (wanted,) = torch.autograd.grad(expected, exact.logits, outer_gradient(expected))
    assert wanted.abs().max() > 1e-3 / mass
    assert_as_exact(grads["logits"], wanted)
