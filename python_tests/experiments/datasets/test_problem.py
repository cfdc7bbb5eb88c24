"""The data of an experiment, and what only the experiment knows of them."""

import dataclasses

import numpy as np
import pytest
import torch
from training_cases import quick_settings, write_clusters

from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.experiments.datasets.problem import CleanReference, load_problem


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("data") / "clusters.npz")


def load(path, method="CE", **changes):
    return load_problem(quick_settings(path, method, **changes))


def test_noise_is_known_where_it_was_made(clusters):
    problem = load(clusters, rate=0.4)
    y = torch.from_numpy(np.load(clusters)["y"])
    rows = problem.source.rows
    assert torch.equal(problem.train_clean, y[rows[0]])
    both = torch.cat([problem.train_clean, y[rows[1]]])
    wrong = (problem.data.labels() != both).double().mean().item()
    assert problem.realised_rate == pytest.approx(wrong)
    assert 0.3 < wrong < 0.5
    assert problem.asked_rate == problem.known_rate == 0.4
    assert problem.noise_rows.shape == (problem.data.train_size, 4)
    assert (problem.noisy, problem.clean_test) == (True, True)
    assert (problem.validation_name, problem.test_name) == ("noisy validation", "clean test")


def test_labels_as_they_come_have_no_known_rate(clusters):
    problem = load(clusters, noise="none")
    assert problem.train_clean is problem.noise_rows is problem.realised_rate is None
    assert problem.known_rate is None
    assert problem.validation_name == "given-label validation"
    assert problem.test_name == "given-label test"
    assert problem.is_user_data
    # The labels of the test part may be wrong as well, so that they are judged.
    assert len(problem.source.order()) == 900


def test_a_test_part_that_is_clean_is_not_judged(clusters):
    problem = load(clusters, noise="none", test_labels="clean")
    assert problem.clean_test
    assert len(problem.source.order()) == 700


def test_user_data_hold_out_the_share_of_each_class(clusters):
    data = load(clusters, noise="none").data
    held, counts = data.validation_labels.bincount(), data.labels().bincount()
    assert (held - 0.1 * counts).abs().max() <= 0.5


def test_a_limit_takes_rows_at_random(clusters):
    problem = load(clusters, data_limit=100)
    assert problem.data.train_size + len(problem.data.validation_labels) == 100
    assert len(problem.test_labels) == 200


def test_the_fingerprint_is_of_all_parts(clusters):
    problem = load(clusters)
    before = problem.fingerprint()
    assert load(clusters).fingerprint() == before
    labels = problem.test_labels.clone()
    labels[5] = (labels[5] + 1) % 4
    assert dataclasses.replace(problem, test_labels=labels).fingerprint() != before
    stored = problem.test.stored.clone()
    stored[5] += 1
    test = Inputs(stored, None, problem.test.preprocessing)
    assert dataclasses.replace(problem, test=test).fingerprint() != before
    assert load(clusters, seed=1).fingerprint() != before


def test_columns_of_a_table_are_kept_for_new_rows(tmp_path):
    pandas = pytest.importorskip("pandas")
    kinds = np.array(list("ab"))[np.arange(60) % 2]
    frame = pandas.DataFrame({"size": np.arange(60.0), "kind": kinds, "y": np.arange(60) % 3})
    frame.to_csv(tmp_path / "data.csv", index=False)
    settings = quick_settings(tmp_path / "data.csv", "CE", dataset="table", label="y", noise="none")
    problem = load_problem(settings)
    preprocessing = problem.data.train.preprocessing
    assert preprocessing.columns.names == ("size", "kind")
    rows = preprocessing.store(frame.iloc[problem.source.rows[0].numpy()])
    torch.testing.assert_close(rows, problem.data.train.stored)


def test_the_observer_knows_the_test_set_and_clean_labels(clusters):
    problem = load(clusters)
    observer = CleanReference(problem)
    perfect = torch.nn.functional.one_hot(problem.test_labels).float()
    assert observer.figures(lambda inputs: perfect) == {"test_accuracy": 100.0}
    by_class = [(problem.train_clean == label).nonzero()[:4, 0] for label in range(4)]
    assert observer.anchor_accuracy(by_class) == 1
    by_class[0] = by_class[1]
    assert observer.anchor_accuracy(by_class) == 0.75
    assert CleanReference(load(clusters, noise="none")).anchor_accuracy(by_class) is None


def test_the_observer_moves_with_the_data(clusters):
    observer = CleanReference(load(clusters))
    observer.to(torch.device("meta"), False)
    assert observer.test_labels.is_meta
    assert observer.train_clean.is_meta
    assert not observer.test.stored.is_meta
    observer.to(torch.device("meta"), True)
    assert observer.test.stored.is_meta
