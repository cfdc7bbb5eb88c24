"""Copies of rows."""

import numpy as np
import torch

from ptd_ext.engine.rows.copies import groups_of_copies


def test_equal_rows_are_in_one_group():
    rows = torch.tensor([[1.0, 0.0], [2.0, 1.0], [1.0, -0.0], [2.0, 1.0], [3.0, 1.0]])
    assert groups_of_copies(rows).tolist() == [0, 1, 0, 1, 2]
    images = rows.reshape(5, 1, 2, 1)
    assert groups_of_copies(images).tolist() == [0, 1, 0, 1, 2]


def test_rows_of_other_labels_are_no_copies():
    rows = torch.ones(4, 3)
    assert groups_of_copies(rows, torch.tensor([0, 1, 0, 300])).tolist() == [0, 1, 0, 2]


def test_values_that_many_rows_share_are_no_copies():
    rows = torch.cat([torch.zeros(21, 1), torch.ones(20, 1)])
    groups = groups_of_copies(rows)
    assert len(np.unique(groups[:21])) == 21
    assert len(np.unique(groups[21:])) == 1


def test_no_rows():
    assert groups_of_copies(torch.zeros(0, 2)).shape == (0,)
