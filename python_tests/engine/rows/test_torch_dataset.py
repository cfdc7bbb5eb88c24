"""Samples and labels of a torch Dataset."""

from types import SimpleNamespace

import pytest
import torch

from ptd_ext.engine.rows.torch_dataset import read_dataset


class Items(torch.utils.data.Dataset):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])


def test_labels_are_taken_where_there_are_some():
    rows, labels = read_dataset(Items((torch.ones(3), torch.tensor(2)), ([0.0, 0.0, 0.0], "b")))
    assert rows.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert labels == [2, "b"]
    assert read_dataset(Items(torch.ones(3), torch.zeros(3)))[1] is None


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        (Items((SimpleNamespace(), 0)), TypeError, "sample 0 of the Dataset is SimpleNamespace"),
        (Stream(), TypeError, "must be a Dataset with a length"),
        (Items(), ValueError, "at least one sample; got an empty Dataset"),
        (Items(torch.ones(2), torch.ones(3)), ValueError, r"one shape; got \[\(2,\), \(3,\)\]"),
        (Items((torch.ones(2), 0), torch.ones(2)), ValueError, "for every sample or for none"),
    ],
)
def test_other_datasets_are_rejected(dataset, error, message):
    with pytest.raises(error, match=message):
        read_dataset(dataset)
