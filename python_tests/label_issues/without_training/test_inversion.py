"""T(x)ᵀ is inverted on the simplex."""

import torch

from ptd_ext.label_issues.without_training import inversion
from ptd_ext.label_issues.without_training.inversion import invert_posterior

MATRIX = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]], dtype=torch.float64)


def test_what_a_clean_posterior_explains_exactly_is_found():
    torch.manual_seed(0)
    clean = torch.rand(50, 3, dtype=torch.float64).softmax(1)
    found = invert_posterior(clean @ MATRIX, None, MATRIX, max_iter=20_000, tol=1e-9)
    torch.testing.assert_close(found, clean, atol=1e-6, rtol=0)


def test_each_row_is_inverted_through_its_own_matrix():
    torch.manual_seed(1)
    parts = torch.stack([MATRIX, torch.eye(3, dtype=torch.float64)])
    weights = torch.rand(20, 2, dtype=torch.float64)
    weights /= weights.sum(1, keepdim=True)
    clean = torch.rand(20, 3, dtype=torch.float64).softmax(1)
    noisy = torch.einsum("nr,rik,ni->nk", weights, parts, clean)
    found = invert_posterior(noisy, weights, parts, max_iter=20_000, tol=1e-9)
    torch.testing.assert_close(found, clean, atol=1e-6, rtol=0)


def test_no_other_point_of_the_simplex_is_more_likely():
    # This posterior is outside of what the matrix can explain.
    noisy = torch.tensor([[0.98, 0.01, 0.01]], dtype=torch.float64)
    found = invert_posterior(noisy, None, MATRIX, max_iter=20_000, tol=1e-9)
    value = (noisy * (found @ MATRIX).log()).sum()
    torch.manual_seed(2)
    others = torch.distributions.Dirichlet(torch.full((3,), 0.3).double()).sample((5000,))
    assert (noisy * (others @ MATRIX).log()).sum(1).max() <= value + 1e-9
    torch.testing.assert_close(found, torch.tensor([[1.0, 0, 0]]).double(), atol=1e-4, rtol=0)


def test_a_class_that_a_model_rules_out_may_be_the_true_one():
    matrix = torch.tensor([[0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    found = invert_posterior(
        torch.tensor([[0.0, 1.0]]).double(), None, matrix, max_iter=5000, tol=1e-9
    )
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0]]).double(), atol=1e-2, rtol=0)


def test_a_row_ends_where_nothing_moves_any_more():
    p = torch.tensor([[0.98, 0.01, 0.01], [0.1, 0.1, 0.8]], dtype=torch.float64)
    start = invert_posterior(p, None, MATRIX, max_iter=0)
    assert torch.equal(invert_posterior(p, None, MATRIX, tol=1e3), start)
    assert not torch.equal(invert_posterior(p, None, MATRIX), start)


def test_the_type_is_that_of_the_probabilities():
    p = torch.tensor([[0.5, 0.3, 0.2]])
    found = invert_posterior(p, torch.ones(1, 1).double(), MATRIX[None])
    assert found.dtype == torch.float32
    expected = invert_posterior(p.double(), None, MATRIX).float()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_no_rows():
    assert invert_posterior(torch.empty(0, 3), None, MATRIX.float()).shape == (0, 3)


def test_without_a_kernel_the_result_is_the_same(monkeypatch):
    p = torch.rand(7, 3, generator=torch.Generator().manual_seed(0)).double()
    p /= p.sum(1, keepdim=True)
    parts, weights = torch.stack([MATRIX, MATRIX.flip(0)]), torch.full((7, 2), 0.5).double()
    monkeypatch.setattr(inversion, "_MAX_ENTRIES", 27)  # three rows of T(x)
    for arguments in ((p, None, MATRIX), (p, weights, parts)):
        found = inversion._in_blocks(*arguments, 200, 1e-6)
        torch.testing.assert_close(found, invert_posterior(*arguments), atol=1e-4, rtol=0)
    monkeypatch.setattr(inversion, "_CACHED_CLASSES", 2)
    assert torch.equal(
        invert_posterior(p, None, MATRIX, tol=1e-6),
        inversion._in_blocks(p, None, MATRIX, 200, 1e-6),
    )
