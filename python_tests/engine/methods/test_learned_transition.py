"""Methods without anchors in the driver: what they print, keep and write."""

import csv

import pytest
import torch
from training_cases import CPU, quick_settings, write_clusters

from ptd_ext import TrainedRun, fit_learned_parts
from ptd_ext.engine.methods.learned_transition import _without_vanished
from ptd_ext.experiments.run.experiment import train


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz")


def learned_by(folder):
    return TrainedRun.load(folder).model.members[0].part_transition


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("NN-F", {}),
        ("EM-F", {}),
        ("EM-F", {"count_base": "neighbours"}),
        ("EM-F", {"count_base": "uniform", "count_rate": "validation"}),
        ("EM-F", {"class_prior": "uniform"}),
        ("EM-F", {"class_prior": "0.25,0.25,0.25,0.25"}),
    ],
)
def test_one_matrix(clusters, tmp_path, capsys, method, changes):
    settings = quick_settings(clusters, method, select="last", verbose=True, **changes)
    result = train(settings, tmp_path / "run", CPU)
    assert result["test_accuracy"] > 90
    printed = capsys.readouterr().out
    assert "of labels wrong, diagonal" in printed
    assert ("noise rate held while counting" in printed) == (method == "EM-F")
    learned = learned_by(tmp_path / "run")
    matrix = learned.parts[0]
    assert learned.n_parts == 1
    torch.testing.assert_close(matrix.sum(1), torch.ones(4, dtype=matrix.dtype))
    # Pairwise noise: the next class is the likeliest wrong one.
    assert (matrix.clone().fill_diagonal_(0).argmax(1) == torch.tensor([1, 2, 3, 0])).all()


@pytest.mark.parametrize("method", ["PTD-L", "PTD-L-R"])
def test_learned_parts(clusters, tmp_path, capsys, method):
    settings = quick_settings(clusters, method, noise="instance", rate=0.4, epochs=6, verbose=True)
    train(settings, tmp_path / "run", CPU)
    assert "held-out noisy labels gain" in capsys.readouterr().out
    learned = learned_by(tmp_path / "run")
    assert learned.n_features == 128
    assert learned.weights(torch.randn(3, 128).double()).shape == (3, learned.n_parts)
    rows = list(csv.DictReader((tmp_path / "run" / "labels.csv").open()))
    # The test part, whose labels no noise was put on, is not judged.
    assert [int(row["id"]) for row in rows] == list(range(700))
    assert all(0 <= float(row["label_quality"]) <= 1 for row in rows)


def test_features_that_weight_decay_has_left_nothing_of_are_zeros():
    """The parts are then learned without them, or one matrix is kept."""
    features = 1e-32 * torch.rand(60, 4)
    with pytest.raises(ValueError, match="features must have a largest absolute value"):
        fit_learned_parts(features, torch.rand(60, 3).softmax(1), torch.arange(60) % 3)
    zeros = _without_vanished(features)
    assert not zeros.any()
    found = fit_learned_parts(zeros, torch.rand(60, 3).softmax(1), torch.arange(60) % 3)
    assert found.parts.isfinite().all()
    kept = torch.tensor([[0.0, -2.0, 1e-20, 1e-31]])
    assert _without_vanished(kept).tolist() == torch.tensor([[0.0, -2.0, 1e-20, 0.0]]).tolist()
