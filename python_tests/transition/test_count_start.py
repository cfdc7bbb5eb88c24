"""The start of running counts: noise rate and base from the posterior of a noisy network."""

import pytest
import torch
from random_numbers import new_generator

import ptd_ext
from ptd_ext.transition.count_start import count_start


def posterior_of(matrix, samples=3000, seed=0):
    """P(Ȳ | x) where x tells the clean class, and noisy labels drawn from it."""
    g = new_generator(seed)
    clean = torch.randint(len(matrix), (samples,), generator=g)
    posterior = matrix[clean]
    return posterior, torch.multinomial(posterior, 1, generator=g)[:, 0]


def next_class(classes=4, rate=0.4):
    eye = torch.eye(classes)
    return (1 - rate) * eye + rate * eye.roll(1, 1)


@pytest.mark.parametrize(("error", "rate"), [(0.6, 0.5), (0.44, 0.42), (0.3, 0.3)])
def test_rate_is_the_mean_of_anchors_and_validation_error(error, rate):
    """Where held-out labels are missed less often than anchors imply, they set the rate."""
    start = count_start(*posterior_of(next_class()), error)
    assert start.anchor_rate == pytest.approx(0.4, abs=1e-5)
    assert start.noise_rate == pytest.approx(rate, abs=1e-5)
    assert f"held while counting: {rate:.1%} (anchors: 40.0%" in str(start)


def test_validation_error_is_held_where_asked_for():
    start = count_start(*posterior_of(next_class()), 0.6, hold_error=True)
    assert start.noise_rate == pytest.approx(0.6)


@pytest.mark.parametrize(("rate", "share"), [(0.3, 0.5), (0.4, 0.5), (0.44, 0.3)])
def test_base_has_less_of_the_anchors_where_noise_is_strong(rate, share):
    start = count_start(*posterior_of(next_class(rate=rate)), 0.6)
    expected = share * torch.eye(4).roll(1, 1) + (1 - share) / 3 * (1 - torch.eye(4))
    torch.testing.assert_close(start.base, expected)


def test_base_is_uniform_where_anchors_find_half_wrong():
    row = torch.tensor([0.48, 0.3, 0.12, 0.1])
    matrix = torch.stack([row.roll(label) for label in range(4)])
    start = count_start(*posterior_of(matrix), 0.6)
    assert start.anchor_rate == pytest.approx(0.52, abs=1e-5)
    torch.testing.assert_close(start.base, (1 - torch.eye(4)) / 3)


def test_anchors_of_a_network_that_memorised_do_not_count():
    _, labels = posterior_of(next_class())
    by_heart = 0.99 * torch.nn.functional.one_hot(labels, 4) + 0.0025
    start = count_start(by_heart, labels, 0.4)
    assert start.anchor_rate < 0.02
    assert start.noise_rate == pytest.approx(0.4)
    torch.testing.assert_close(start.base, (1 - torch.eye(4)) / 3)
    # A quarter of what it misses on held-out data is missed in training: half the weight.
    wrong = torch.arange(len(labels)) % 10 == 0
    half = torch.where(wrong[:, None], by_heart.roll(1, 1), by_heart)
    start = count_start(half, labels, 0.4)
    assert start.noise_rate == pytest.approx(0.4 - 0.5 * (0.4 - start.anchor_rate) / 2)


def test_anchor_options_and_arrays():
    posterior, labels = posterior_of(next_class())
    start = count_start(posterior.numpy(), labels, 0.5, rule="argmax", count=3)
    assert start.anchor_rate == pytest.approx(0.4, abs=1e-5)


def test_two_classes_keep_a_larger_diagonal():
    start = count_start(*posterior_of(next_class(2, 0.49)), 0.6)
    assert start.noise_rate == 0.49
    posterior, labels = posterior_of(next_class(2, 0.49))
    ptd_ext.TransitionEM.from_pred_probs(posterior, labels, 0.6)


def test_from_pred_probs_passes_options_on():
    posterior, labels = posterior_of(next_class())
    em = ptd_ext.TransitionEM.from_pred_probs(posterior, labels, 0.5, base_share=1.0)
    assert em.held_rate.item() == pytest.approx(0.45, abs=1e-5)
    wrong = em.transition.clone().fill_diagonal_(0.0)
    assert (wrong.argmax(1) == torch.tensor([1, 2, 3, 0])).all()


def test_bad_arguments_get_an_error_message():
    posterior, labels = posterior_of(next_class())
    with pytest.raises(ValueError, match="validation_error must be from 0 to 1; got 40"):
        count_start(posterior, labels, 40)
    with pytest.raises(ValueError, match="noisy_labels must"):
        count_start(posterior, labels[:-1], 0.4)
