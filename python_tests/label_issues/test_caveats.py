"""Caveats about T(x): which rows of it the samples hardly determine."""

import torch

from ptd_ext.label_issues.caveats import transition_caveats

EVEN = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
NAMES = ["cat", "dog"]


def test_many_samples_and_a_clear_diagonal_need_no_caveat():
    assert transition_caveats(EVEN[None], torch.ones(2), 1000, class_names=NAMES) == ()


def test_rows_with_few_samples_are_named():
    found = transition_caveats(EVEN[None], torch.tensor([0.95, 0.05]), 1000, class_names=NAMES)
    assert len(found) == 1
    assert "dog" in found[0]
    assert "50" in found[0]
    assert found[0][0].isupper()


def test_classes_that_are_almost_exchanged_are_named():
    blurred = torch.tensor([[0.52, 0.48], [0.1, 0.9]])
    (found,) = transition_caveats(blurred[None], torch.ones(2), 1000, class_names=NAMES)
    assert "0.48" in found
    assert "0.52" in found


def test_parts_are_averaged_by_their_weights():
    parts = torch.stack([EVEN, EVEN.flip(1)])
    for share, caveats in ((0.9, 0), (0.1, 2)):
        weights = torch.tensor([[share, 1 - share]]).repeat(50, 1)
        found = transition_caveats(parts, torch.ones(2), 1000, weights, class_names=NAMES)
        assert len(found) == caveats


def test_long_names_are_shortened():
    names = ["x" * 10_000, "y"]
    (found,) = transition_caveats(EVEN[None], torch.ones(2), 10, class_names=names)
    assert len(found) < 500


def test_many_caveats_are_summed_up():
    blurred = torch.full((12, 12), 0.04) + 0.52 * torch.eye(12).roll(1, 1)
    found = transition_caveats(
        blurred[None], torch.ones(12), 12_000, class_names=[f"c{k}" for k in range(12)]
    )
    assert len(found) == 4
    assert found[3] == "There are 9 more caveats about the rows of other classes."
