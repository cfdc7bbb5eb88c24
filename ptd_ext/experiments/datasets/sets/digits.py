"""The 1,797 digits of scikit-learn: real data without a download."""

from __future__ import annotations

import torch

from ptd_ext.engine.rows.split import hold_out
from ptd_ext.experiments.datasets.dataset import TEST_SHARE, DataSet


def load_digits(seed: int) -> DataSet:
    """Images [N, 1, 8, 8]; a random fifth is the test part, without regard to classes.

    The values 0 … 16 are spread over 0 … 255, as other images have them.
    """
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'digits needs scikit-learn: pip install "ptd_ext[all]".'
        ) from None
    values, labels = load_digits(return_X_y=True)
    images = (torch.from_numpy(values) * (255 / 16)).round().byte().reshape(-1, 1, 8, 8)
    labels = torch.from_numpy(labels).long()
    train, test = hold_out(labels, TEST_SHARE, seed, by_class=False)
    names = tuple(str(digit) for digit in range(10))
    parts = images[train], labels[train], images[test], labels[test]
    return DataSet("digits", *parts, names, train_rows=train, test_rows=test)
