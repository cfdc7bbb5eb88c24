"""DataSet's checks, labels of files, and the features from which noise is computed."""

import numpy as np
import pytest
import torch

from ptd_ext.engine.rows.columns import Columns
from ptd_ext.experiments.datasets.dataset import DataSet, as_labels

ROWS, LABELS = torch.arange(12.0).reshape(6, 2), torch.tensor([0, 1, 0, 1, 0, 1])


def make(train=ROWS, labels=LABELS, test=ROWS[:2], test_labels=LABELS[:2], **options):
    return DataSet("d", train, labels, test, test_labels, ("a", "b"), **options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": ROWS[:0], "labels": LABELS[:0]}, "d's training part must have samples"),
        ({"test": ROWS[:2, :1]}, r"training samples' shape \[2\]; got \[1\]"),
    ],
)
def test_wrong_parts(changes, message):
    assert make().n_classes == 2
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_noise_features():
    assert torch.equal(make().noise_features(), ROWS)
    images = torch.arange(24, dtype=torch.uint8).reshape(6, 1, 2, 2)
    assert torch.equal(make(images, test=images[:2]).noise_features(), images.flatten(1).float())
    embedding = torch.tensor([[0.0, 0.0], [2.0, 4.0], [4.0, 0.0]])
    tokens = torch.tensor([[1, 2, 0], [0, 0, 0]], dtype=torch.int32)
    words = make(tokens, LABELS[:2], tokens, embedding=embedding)
    assert words.noise_features().tolist() == [[3, 2], [0, 0]]


@pytest.mark.parametrize(
    "values", [[0, 2], np.array([0, 2], ">i2"), torch.tensor([0, 2], dtype=torch.uint8)]
)
def test_labels_of_files(values):
    found = as_labels(values, "y", 0, 2)
    assert found.dtype == torch.int64
    assert found.tolist() == [0, 2]
    with pytest.raises(ValueError, match="y must be 0 to 1; got 2"):
        as_labels(values, "y", 0, 1)
    with pytest.raises(ValueError, match="y must be 1 to 2; got 0"):
        as_labels(values, "y", 1, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, True], r"y must be integers \[N\]; got list"),
        (np.array([0.0]), r"y must be integers \[N\]; got float64"),
        (np.array([[0]]), r"y must be integers \[N\]; got int64 \[1, 1\]"),
        ("01", r"y must be integers \[N\]; got str"),
    ],
)
def test_labels_that_are_not_integers(values, message):
    with pytest.raises(ValueError, match=message):
        as_labels(values, "y", 0, 2)


def test_noise_features_of_tables_and_sparse_rows():
    pandas, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    frame = pandas.DataFrame({"n": range(6), "kind": list("abcabc")})
    columns = Columns.fit(frame)
    features = make(frame, test=frame[:2], columns=columns).noise_features()
    assert features.dtype == torch.float32
    assert features.shape == (6, 4)
    torch.testing.assert_close(features[:, 0], torch.arange(6.0))
    rows = sparse.csr_array(ROWS.numpy())
    torch.testing.assert_close(make(rows, test=rows[:2]).noise_features(), ROWS)
    wide = sparse.csr_array(np.eye(6, 1200))
    assert make(wide, test=wide[:2]).noise_features().shape == (6, 5)


def test_images_of_bytes():
    images = torch.zeros(6, 3, 2, 2, dtype=torch.uint8)
    assert make(images, test=images[:2]).as_bytes
    assert not make(images.float(), test=images[:2].float()).as_bytes
    assert not make().as_bytes
