"""Codes of verified labels, and the posteriors that they fix."""

import pytest
import torch

from ptd_ext import forward_loss
from ptd_ext.transition.verified import (
    IGNORED,
    NONE_OF_THEM,
    UNREVIEWED,
    WRONG,
    as_verified,
    fix_posterior,
    restrict,
)


def test_what_is_known_fixes_the_posterior():
    posterior = torch.tensor([[0.5, 0.3, 0.2]]).repeat(5, 1)
    codes = torch.tensor([UNREVIEWED, 2, WRONG, NONE_OF_THEM, 0])
    found = fix_posterior(posterior, torch.zeros(5, dtype=torch.long), codes)
    expected = [[0.5, 0.3, 0.2], [0, 0, 1], [0, 0.6, 0.4], [0, 0, 0], [1, 0, 0]]
    torch.testing.assert_close(found, torch.tensor(expected))


def test_a_wrong_label_of_which_the_model_is_certain_leaves_the_others_equal():
    found = fix_posterior(torch.tensor([[1.0, 0, 0]]), torch.tensor([0]), torch.tensor([WRONG]))
    assert found.tolist() == [[0, 0.5, 0.5]]


def test_codes_are_checked():
    assert as_verified([0, -3, 2], 3, 3).dtype is torch.int64
    with pytest.raises(ValueError, match=r"verified must be \[4\]; got \[3\]"):
        as_verified([0, 1, 2], 4, 3)
    with pytest.raises(ValueError, match=r"from -3 to 1; got 2 at sample 1"):
        as_verified([0, 2], 2, 2)
    with pytest.raises(ValueError, match=r"from -3 to 1; got -4 at sample 0"):
        as_verified([-4, 2], 2, 2)
    with pytest.raises(TypeError, match=r"verified must be integers; got torch.bool"):
        as_verified([True, False], 2, 2)


def test_restricted_losses_are_those_of_the_classes_that_are_left():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    matrix = torch.rand(3, 3, generator=generator, dtype=torch.float64) + 0.1
    matrix = matrix / matrix.sum(1, keepdim=True)
    labels, codes = torch.tensor([0, 1, 2, 0, 1]), torch.tensor([UNREVIEWED, 2, WRONG, -3, 1])
    restricted, kept, given = restrict(logits, labels, codes)
    loss = forward_loss(restricted, kept, None, matrix, reduction="none", smoothing=0.0)
    loss = torch.where(kept == IGNORED, 0.0, loss + given)
    g = logits.softmax(1)
    through = [(g[n] * matrix[:, labels[n]]) for n in range(5)]
    expected = [through[0].sum(), through[1][2], through[2][:2].sum(), None, through[4][1]]
    for found, value in zip(loss, expected, strict=True):
        torch.testing.assert_close(
            found, torch.zeros_like(found) if value is None else -value.log()
        )
    total = sum(-value.log() for value in expected if value is not None)
    (ours,) = torch.autograd.grad(loss.sum(), logits, retain_graph=True)
    (theirs,) = torch.autograd.grad(total, logits)
    torch.testing.assert_close(ours, theirs)
    assert (ours[3] == 0).all()
