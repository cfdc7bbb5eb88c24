"""scikit-learn's digits."""

import pytest
import torch

from ptd_ext.experiments.datasets.sets.digits import load_digits

pytest.importorskip("sklearn")


def test_digits_are_split_by_the_seed():
    one, same, other = (load_digits(seed) for seed in (0, 0, 1))
    assert one.train_inputs.shape == (1438, 1, 8, 8)
    assert one.test_inputs.shape == (359, 1, 8, 8)
    assert one.train_inputs.dtype == torch.uint8
    assert one.train_inputs.max() == 255
    assert one.n_classes == 10
    assert torch.equal(one.train_inputs, same.train_inputs)
    assert not torch.equal(one.train_labels, other.train_labels)
    rows = torch.cat([one.train_rows, one.test_rows])
    assert rows.sort().values.tolist() == list(range(1797))
