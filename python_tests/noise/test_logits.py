"""The products x · w_y: exact sums, and projections that are standard normal."""

import pytest
import torch
from random_numbers import new_generator
from scipy import stats

from ptd_ext.noise import _logits as noise_logits


@pytest.mark.parametrize("size", [3, 700])
def test_products_are_exact_in_any_order(size):
    """Blocks of columns in any order give the same bits as one product of the rounded factors."""
    rows = torch.randint(256, (20, size), generator=new_generator(0))
    inputs = noise_logits.NoiseInputs(rows.to(torch.uint8))
    found = noise_logits.noise_logits(inputs, torch.arange(20), 2, 5, 9)
    weights = noise_logits.projection(2, slice(0, size), 5, 9, torch.device("cpu")) / 2**16
    assert torch.equal(found, rows.double() @ weights)
    shuffled = torch.randperm(20, generator=new_generator(1))
    assert torch.equal(noise_logits.noise_logits(inputs, shuffled, 2, 5, 9), found[shuffled])


def test_standardised_inputs():
    rows = torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    inputs = noise_logits.NoiseInputs(rows, (torch.tensor([1.0, 3.0]), 2.0))
    expected = torch.tensor([[0.0, 0.0], [2.0, 2.0]], dtype=torch.float64)
    assert torch.equal(inputs.block(slice(None), slice(None)), expected)
    assert noise_logits.NoiseInputs(rows).statistics() == (4.0, 2.23607)


def test_projection_is_standard_normal_and_of_its_own_for_every_class():
    cpu = torch.device("cpu")
    first, second = (
        noise_logits.projection(label, slice(0, 5000), 10, 4, cpu).flatten() / 2**16
        for label in (0, 1)
    )
    for w in (first, second):
        assert stats.kstest(w.numpy(), "norm").pvalue > 1e-3
    assert stats.pearsonr(first.numpy(), second.numpy()).pvalue > 1e-3
    block = noise_logits.projection(0, slice(100, 200), 10, 4, cpu) / 2**16
    assert torch.equal(block, first.view(5000, 10)[100:200])
