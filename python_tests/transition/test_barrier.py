"""The barrier that keeps classes from dying, and class priors from settings."""

import math

import pytest
import torch

from ptd_ext.transition.barrier import ClassBarrier, class_prior_of

SHARES = torch.tensor([0.5, 0.3, 0.2])
MANY = 10_000  # samples: the mean of the batch alone counts


def test_zero_until_a_class_falls_below_half_its_share():
    barrier = ClassBarrier(SHARES, weight=2.0)
    value, slope = barrier.at_mean(torch.tensor([0.5, 0.2, 0.3]), MANY)
    assert value == 0
    assert torch.equal(slope, torch.zeros(3))
    mean = torch.tensor([0.5, 0.45, 0.05])
    value, slope = barrier.at_mean(mean, MANY)
    assert value.item() == pytest.approx(2 * 0.2 * math.log(0.1 / 0.05))
    torch.testing.assert_close(slope, torch.tensor([0.0, 0.0, -2 * 0.2 / 0.05]))


def test_known_prior_is_a_divergence():
    prior = torch.tensor([0.2, 0.3, 0.5])
    barrier = ClassBarrier(SHARES, prior, prior_weight=0.3)
    assert barrier.at_mean(prior, MANY)[0].item() == pytest.approx(0, abs=1e-6)
    mean = torch.tensor([0.5, 0.3, 0.2])
    expected = 0.3 * (prior * (prior / mean).log()).sum()
    torch.testing.assert_close(barrier.at_mean(mean, MANY)[0], expected)


def test_small_batches_enter_a_running_mean_in_training_only():
    barrier = ClassBarrier(SHARES).eval()
    mean = torch.tensor([0.0, 0.0, 1.0])
    barrier.at_mean(mean, 3)
    assert torch.equal(barrier.marginal, SHARES)
    barrier.train().at_mean(mean, 3)
    torch.testing.assert_close(barrier.marginal, torch.lerp(SHARES, mean, 3 / 30))
    kept = barrier.marginal.clone()
    barrier.at_mean(mean * torch.nan, 3)
    assert torch.equal(barrier.marginal, kept)


@pytest.mark.parametrize("name", ["barrier", "prior_weight"])
@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_weights_are_finite_and_not_negative(name, value):
    option = {"barrier": "weight", "prior_weight": "prior_weight"}[name]
    with pytest.raises(ValueError, match=f"{name} must be at least 0 and finite; got {value}"):
        ClassBarrier(SHARES, **{option: value})


def test_class_prior_of_a_setting():
    assert class_prior_of("unknown") is None
    assert class_prior_of("uniform") == "uniform"
    torch.testing.assert_close(class_prior_of("0.5, 0.3, 0.2"), SHARES)
    rounded = torch.tensor([0.4998, 0.2998, 0.1998])
    torch.testing.assert_close(class_prior_of("0.4998, 0.2998, 0.1998"), rounded / rounded.sum())
    for text, message in (
        ("a,b", "class_prior must be unknown, uniform, or shares .*; got 'a,b'"),
        ("0.5,0.6", "class_prior must be probabilities with sum 1; .* and the sum 1.1"),
    ):
        with pytest.raises(ValueError, match=message):
            class_prior_of(text)
