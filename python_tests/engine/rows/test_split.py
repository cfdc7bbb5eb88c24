"""Positions to train on and to hold out: by class for users' data, at random as in the paper."""

import pytest
import torch

from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.split import hold_out, split_data, validation_share, with_copies


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_every_class_keeps_a_row_to_train_on(share):
    codes = torch.tensor([0] * 10 + [1] * 3 + [2])
    train, validation = hold_out(codes, share, seed=0)
    assert torch.cat([train, validation]).sort().values.tolist() == list(range(14))
    assert codes[train].unique().tolist() == [0, 1, 2]
    assert (codes[validation] == 0).sum() == min(round(10 * share), 9)


def test_classes_of_one_row_validate_with_the_first():
    train, validation = hold_out(torch.arange(5), 0.5, seed=0)
    assert train.tolist() == list(range(5))
    assert validation.tolist() == [0]


@pytest.mark.parametrize(("limit", "rows"), [(None, 50), (20, 20)])
def test_the_paper_holds_out_a_share_of_all_rows(limit, rows):
    codes = torch.arange(50) % 2
    train, validation = hold_out(codes, 0.1, seed=3, by_class=False, limit=limit)
    assert len(validation) == rows // 10
    both = torch.cat([train, validation])
    assert len(both.unique()) == len(both) == rows
    for part in (train, validation):
        assert part.tolist() == sorted(part.tolist())
    again = hold_out(codes, 0.1, seed=3, by_class=False, limit=limit)
    assert torch.equal(again[1], validation)
    other = hold_out(codes, 0.1, seed=4, by_class=False, limit=limit)
    assert not torch.equal(other[0], train)


@pytest.mark.parametrize(("rows", "share", "held"), [(10, 0.3, 3), (10, 0.0, 1), (2, 0.5, 1)])
def test_a_share_of_all_rows_is_at_least_one(rows, share, held):
    train, out = hold_out(torch.zeros(rows).long(), share, 1, by_class=False)
    assert len(out) == held
    assert torch.equal(torch.cat([train, out]).sort().values, torch.arange(rows))


@pytest.mark.parametrize("by_class", [True, False])
def test_the_share_follows_from_the_number_of_rows(by_class):
    labels = torch.arange(400) % 2
    assert len(hold_out(labels, None, 0, by_class=by_class)[1]) == 0.3 * 400
    assert [validation_share(n) for n in (0, 500, 1000, 4000)] == [0.3, 0.3, 0.2, 0.1]


def test_copies_are_on_the_side_of_the_first():
    positions = torch.tensor([0, 2, 3, 5]), torch.tensor([1, 4])
    groups = torch.tensor([0, 1, 1, 2, 0, 1])
    train, validation = with_copies(positions, groups)
    assert train.tolist() == [0, 3, 4]
    assert validation.tolist() == [1, 2, 5]
    assert with_copies(positions, torch.arange(6)) is positions


def test_copies_leave_rows_on_both_sides():
    positions = torch.tensor([0, 2]), torch.tensor([1])
    assert with_copies(positions, torch.zeros(3, dtype=torch.int64)) == positions


def test_rows_and_labels_stay_together():
    rows = torch.arange(12.0).reshape(6, 2)
    preprocessing, stored = Preprocessing.fit(rows)
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    positions = torch.tensor([5, 0, 2]), torch.tensor([4])
    data = split_data(stored, labels, ("a", "b"), preprocessing, positions, channels_last=True)
    assert data.train_labels.tolist() == [1, 0, 0]
    assert torch.equal(data.train.fetch(torch.tensor([0]), torch.device("cpu")), stored[[5]])
    assert torch.equal(data.validation.stored[0], stored[4])
    assert data.validation_labels.tolist() == [0]
    assert data.sample_shape == torch.Size([2])
    assert data.train.channels_last
    assert data.validation.channels_last
