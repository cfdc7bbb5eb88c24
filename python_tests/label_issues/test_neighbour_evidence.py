"""Evidence from the labels of neighbours."""

import torch

from ptd_ext.label_issues.neighbour_evidence import neighbour_evidence, smoothed


def clusters(rows):
    codes = torch.arange(rows) % 3
    generator = torch.Generator().manual_seed(0)
    return 4 * torch.eye(3)[codes] + torch.randn(rows, 3, generator=generator), codes


def test_three_kinds_of_evidence_favour_the_own_class():
    features, codes = clusters(300)
    scores, estimate, warning = neighbour_evidence(features, codes, 3)
    assert scores.shape == (3, 300, 3)
    assert not warning
    assert (scores.argmax(2) == codes).double().mean() > 0.95
    assert estimate.agreement > 0.9


def test_the_label_of_a_row_is_not_evidence_about_it():
    features, codes = clusters(300)
    changed = codes.clone()
    changed[0] = 1
    before, after = (neighbour_evidence(features, each, 3)[0][:, 0] for each in (codes, changed))
    assert (before.argmax(1) == after.argmax(1)).all()


def test_few_rows_have_fewer_kinds():
    features, codes = clusters(9)
    assert neighbour_evidence(features, codes, 3)[0].shape == (2, 9, 3)


def test_smoothed_rows_sum_to_one_and_have_no_zeros():
    matrix = smoothed(torch.eye(4))
    assert matrix.min() > 0
    torch.testing.assert_close(matrix.sum(1), torch.ones(4))
