"""Neighbours: found exactly, and what their labels tell."""

import pytest
import torch

import ptd_ext
from ptd_ext.transition.nearest import nearest_neighbours


@pytest.mark.parametrize(("samples", "block"), [(2, 64), (97, 16), (700, 300), (700, 4096)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbours_are_the_nearest(samples, block, dtype):
    k = min(4, samples - 1)
    features = torch.randn(samples, 12, generator=torch.Generator().manual_seed(0), dtype=dtype)
    features += 0.5
    rows = torch.nn.functional.normalize(features.double())
    similar = (rows @ rows.T).fill_diagonal_(-2)
    expected = similar.topk(k).values
    found = nearest_neighbours(features, k, block=block)
    assert (found != torch.arange(samples)[:, None]).all()
    torch.testing.assert_close(similar.gather(1, found), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [
        (1e300, torch.float64),
        (1e-300, torch.float64),
        (1e35, torch.float32),
        (1e-40, torch.float32),
    ],
)
def test_rows_of_any_length_have_their_direction(scale, dtype):
    """Every second row is scaled, which changes no cosine but for rounding."""
    features = torch.randn(60, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = torch.nn.functional.normalize(features)
    similar = (rows @ rows.T).fill_diagonal_(-2)
    features[::2] *= scale
    found = nearest_neighbours(features.to(dtype), 3, block=16)
    nearest = similar.topk(3).values
    torch.testing.assert_close(similar.gather(1, found), nearest, rtol=0, atol=1e-4)


def test_equal_and_zero_features_have_neighbours_too():
    found = nearest_neighbours(torch.zeros(50, 3), 3, block=16)
    assert (found.sort(1).values.diff(dim=1) > 0).all()
    assert (found != torch.arange(50)[:, None]).all()


def clusters(samples=3000, classes=4, seed=0, absent=None):
    g = torch.Generator().manual_seed(seed)
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
    found = ptd_ext.neighbour_transition(features, noisy)
    assert (found.transition - matrix).abs().sum(1).max() < 0.15
    rate = (clean != noisy).float().mean().item()
    assert abs(found.noise_rate - rate) < 0.03
    torch.testing.assert_close(found.class_prior, clean.bincount() / len(clean), rtol=0, atol=0.03)
    assert (found.posterior.argmax(1) == clean).float().mean() > 0.85
    torch.testing.assert_close(found.posterior.sum(1), torch.ones(len(clean)))
    assert found.summary().noise_rate == pytest.approx(found.noise_rate, abs=1e-5)


def test_base_leaves_out_rows_that_are_not_clear():
    matrix = torch.tensor([[0.5, 0.45, 0.05], [0.1, 0.7, 0.2], [0.05, 0.25, 0.7]])
    found = ptd_ext.NeighbourTransition(
        matrix, torch.ones(3) / 3, 0.4, torch.ones(9, 3) / 3, 0.5, 1
    )
    # Row 0 is uniform, as 0.5 is less than 1.2 · 0.45.
    expected = torch.tensor([[0.0, 0.5, 0.5], [1 / 3, 0.0, 2 / 3], [1 / 6, 5 / 6, 0.0]])
    torch.testing.assert_close(found.base(), expected)
    em = ptd_ext.TransitionEM([0, 1, 2], 0.3, base=found.base(), base_share=1.0)
    torch.testing.assert_close(em.transition[1], torch.tensor([0.1, 0.7, 0.2]))


def test_iterations_are_counted():
    features, _, noisy, _ = clusters(300)
    for most in (0, 1, 3):
        found = ptd_ext.neighbour_transition(features, noisy, iterations=most)
        assert found.iterations == most
    settled = ptd_ext.neighbour_transition(features, noisy, iterations=1000)
    assert 3 < settled.iterations < 1000


def test_class_without_labels_is_told():
    features, _, noisy, _ = clusters(500, absent=3)
    noisy[noisy == 3] = 0
    found = ptd_ext.neighbour_transition(features, noisy, classes=4)
    assert found.transition.isfinite().all()
    torch.testing.assert_close(found.transition.sum(1), torch.ones(4))
    assert found.class_prior[3] < 1e-3
    assert "class 3 has no samples" in str(found.summary())


@pytest.mark.parametrize(
    ("features", "labels", "options", "sentence"),
    [
        (torch.zeros(3, 2), [0, 1, 1], {}, "k must be at least 1 and less than the 3 samples"),
        (torch.zeros(1, 2), [0], {"classes": 2, "k": 1}, "less than the 1 samples; got 1"),
        (torch.zeros(9, 2), [0, 1, 1], {}, r"noisy_labels must be \[9\]"),
        (torch.full((9, 2), torch.nan), [0, 1, 1] * 3, {}, "features must be finite"),
        (torch.zeros(9, 2), [0, 1, 2] * 3, {"classes": 2}, "labels must be 0 to 1; got 2"),
        (torch.zeros(9, 2), [0, 1, 2**40] * 3, {}, "classes must be at most 32,768"),
        (torch.zeros(9, 0), [0, 1, 2] * 3, {}, r"features must have at least one column; .*9, 0\]"),
        (
            torch.zeros(9, 2),
            [0, 1, 2] * 3,
            {"k": 1.5},
            "k must be a whole number of at least 1; got 1.5",
        ),
        (
            torch.zeros(9, 2),
            [0, 1, 2] * 3,
            {"iterations": -1},
            "iterations must be a whole number of at least 0",
        ),
    ],
)
def test_bad_arguments_get_a_sentence(features, labels, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        ptd_ext.neighbour_transition(features, labels, **options)


def test_two_classes():
    g = torch.Generator().manual_seed(0)
    clean = torch.arange(600) % 2
    features = 0.3 * torch.randn(600, 4, generator=g) + 4 * torch.eye(2, 4)[clean]
    noisy = torch.where(torch.rand(600, generator=g) < 0.1, 1 - clean, clean)
    found = ptd_ext.neighbour_transition(features, noisy)
    assert (found.posterior.argmax(1) == clean).float().mean() > 0.98
    assert abs(found.noise_rate - (noisy != clean).float().mean()) < 0.03
