"""Neighbours: found exactly, and what follows from their labels."""

import pytest
import torch
from random_numbers import new_generator

import ptd_ext
from ptd_ext.transition import nearest


def clusters(samples=3000, classes=4, seed=0, absent=None):
    g = new_generator(seed)
    clean = torch.randint(classes, (samples,), generator=g)
    if absent is not None:
        clean[clean == absent] = 0
    features = 5 * torch.eye(classes, 10)[clean] + torch.randn(samples, 10, generator=g)
    matrix = torch.full((classes, classes), 0.05) + 0.5 * torch.eye(classes)
    matrix += 0.3 * torch.eye(classes).roll(1, 1)
    matrix /= matrix.sum(1, keepdim=True)
    return features, clean, torch.multinomial(matrix[clean], 1, generator=g)[:, 0], matrix


def test_recovers_matrix_prior_rate_and_labels():
    features, clean, noisy, matrix = clusters()
    found = ptd_ext.transition.neighbour_transition(features, noisy)
    assert (found.transition - matrix).abs().sum(1).max() < 0.15
    rate = (clean != noisy).float().mean().item()
    assert abs(found.noise_rate - rate) < 0.03
    torch.testing.assert_close(found.class_prior, clean.bincount() / len(clean), rtol=0, atol=0.03)
    assert (found.posterior.argmax(1) == clean).float().mean() > 0.85
    torch.testing.assert_close(found.posterior.sum(1), torch.ones(len(clean)))
    assert found.summary().noise_rate == pytest.approx(found.noise_rate, abs=1e-5)


def test_iterations_are_counted():
    features, _, noisy, _ = clusters(300)
    for most in (0, 1, 3):
        found = ptd_ext.transition.neighbour_transition(features, noisy, max_iter=most)
        assert found.n_iter == most
    settled = ptd_ext.transition.neighbour_transition(features, noisy, max_iter=1000)
    assert 3 < settled.n_iter < 1000


def test_class_without_labels_is_reported():
    features, _, noisy, _ = clusters(500, absent=3)
    noisy[noisy == 3] = 0
    found = ptd_ext.transition.neighbour_transition(features, noisy, n_classes=4)
    assert found.transition.isfinite().all()
    torch.testing.assert_close(found.transition.sum(1), torch.ones(4))
    assert found.class_prior[3] < 1e-3
    assert "class 3 has no samples" in str(found.summary())


@pytest.mark.parametrize(
    ("features", "labels", "options", "message"),
    [
        (torch.zeros(3, 2), [0, 1, 1], {}, "k must be at least 1 and less than the 3 samples"),
        (torch.zeros(1, 2), [0], {"n_classes": 2, "k": 1}, "less than the 1 samples; got 1"),
        (torch.zeros(9, 2), [0, 1, 1], {}, r"noisy_labels must be \[9\]"),
        (torch.full((9, 2), torch.nan), [0, 1, 1] * 3, {}, "features must be finite"),
        (torch.zeros(9, 2), [0, 1, 2] * 3, {"n_classes": 2}, "labels must be from 0 to 1; got 2"),
        (torch.zeros(9, 2), [0, 1, 2**40] * 3, {}, "n_classes must be at most 32,768"),
        (torch.zeros(9, 0), [0, 1, 2] * 3, {}, r"features must have at least one column; .*9, 0\]"),
        (
            torch.zeros(9, 2),
            [0, 1, 2] * 3,
            {"k": 1.5},
            "k must be an integer >= 1; got 1.5",
        ),
        (
            torch.zeros(9, 2),
            [0, 1, 2] * 3,
            {"max_iter": -1},
            "max_iter must be an integer >= 0",
        ),
    ],
)
def test_bad_arguments_get_an_error_message(features, labels, options, message):
    with pytest.raises(ValueError, match=message):
        ptd_ext.transition.neighbour_transition(features, labels, **options)


def test_two_classes():
    g = torch.Generator().manual_seed(0)
    clean = torch.arange(600) % 2
    features = 0.3 * torch.randn(600, 4, generator=g) + 4 * torch.eye(2, 4)[clean]
    noisy = torch.where(torch.rand(600, generator=g) < 0.1, 1 - clean, clean)
    found = ptd_ext.transition.neighbour_transition(features, noisy)
    assert (found.posterior.argmax(1) == clean).float().mean() > 0.98
    assert abs(found.noise_rate - (noisy != clean).float().mean()) < 0.03


def test_many_samples_have_their_neighbours_in_cells(monkeypatch):
    features, _, noisy, _ = clusters()
    exact = ptd_ext.transition.neighbour_transition(features, noisy)
    monkeypatch.setattr(nearest, "_EXACT", len(features) - 1)
    found = ptd_ext.transition.neighbour_transition(features, noisy)
    assert not torch.equal(found.posterior, exact.posterior)
    torch.testing.assert_close(found.transition, exact.transition, rtol=0, atol=0.03)
    monkeypatch.setattr(nearest, "_EXACT", len(features))
    again = ptd_ext.transition.neighbour_transition(features, noisy)
    assert torch.equal(again.posterior, exact.posterior)
