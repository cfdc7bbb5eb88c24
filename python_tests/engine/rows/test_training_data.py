"""TrainingData: where it is kept, and its fingerprint."""

from dataclasses import replace

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.split import split_data
from ptd_ext.engine.rows.training_data import TrainingData


@pytest.fixture
def data() -> TrainingData:
    rows = torch.randn(9, 3, generator=new_generator(0))
    preprocessing, stored = Preprocessing.fit(rows)
    positions = torch.arange(6), torch.arange(6, 9)
    return split_data(stored, torch.arange(9) % 2, ("no", "yes"), preprocessing, positions)


def test_labels_move_and_if_they_fit_the_rows(data):
    meta = torch.device("meta")
    for resident in (False, True):
        moved = data.to(meta, resident)
        assert moved.train_labels.device == moved.validation_labels.device == meta
        assert (moved.train.stored.device == meta) is resident
        assert (moved.validation.stored.device == meta) is resident
        assert data.train.stored.device.type == "cpu"


def test_sizes(data):
    assert (data.n_classes, data.train_size, data.is_table) == (2, 6, True)
    assert data.labels().tolist() == [0, 1] * 4 + [0]
    assert data.bytes() == 9 * 3 * 4
    assert not replace(data, embedding=torch.ones(2, 2)).is_table
    assert not replace(data, sample_shape=torch.Size([1, 1, 3])).is_table


def other_row(data):
    stored = data.train.stored.clone()
    stored[4, 1] += 1
    data.train.stored = stored


@pytest.mark.parametrize(
    "change",
    [
        {"train_labels": torch.zeros(6, dtype=torch.int64)},
        {"validation_labels": torch.zeros(3, dtype=torch.int64)},
        {"class_names": ("no", "Yes")},
        {"embedding": torch.ones(2, 2)},
        other_row,
    ],
    ids=["label", "held-out label", "name", "embedding", "row"],
)
def test_the_fingerprint_is_of_all_labels_and_rows(data, change):
    before = data.fingerprint()
    assert before == data.to(torch.device("cpu"), True).fingerprint()
    changed = data
    if callable(change):
        change(data)
    else:
        changed = replace(data, **change)
    assert changed.fingerprint() != before
