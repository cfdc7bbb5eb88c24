"""The data of an experiment, and what only the experiment knows of them."""

import dataclasses

import numpy as np
import pytest
import torch
from training_cases import quick_settings, write_clusters

from ptd_ext.engine.rows.columns import Columns
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.experiments.datasets.problem import CleanReference, load_data, load_problem
from ptd_ext.experiments.presets import resolve


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


def test_the_test_part_does_not_shape_the_preprocessing(tmp_path):
    """Words and their singular vectors are those of the rows to learn from alone."""
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("sklearn")
    generator = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(1500)])
    texts = [" ".join(generator.choice(words, 60)) for _ in range(200)]
    frame = pandas.DataFrame({"text": texts, "y": np.arange(200) % 2})
    frame.to_csv(tmp_path / "data.csv", index=False)
    settings = quick_settings(
        tmp_path / "data.csv", "CE", dataset="table", label="y", text="text", noise="none"
    )
    dataset, problem = load_data(settings), load_problem(settings)
    preprocessing = problem.data.train.preprocessing
    columns = Columns.fit(dataset.train_inputs, seed=settings.seed)
    assert preprocessing.width == columns.width
    expected, stored = Preprocessing.fit(dataset.train_inputs, settings.seed, columns=columns)
    ours, theirs = (each.columns.entries[0].words for each in (preprocessing, expected))
    assert ours.words == theirs.words
    assert np.array_equal(ours.components, theirs.components)
    assert torch.equal(problem.test.stored, expected.store(dataset.test_inputs))
    held_out = torch.isin(dataset.train_rows, problem.source.rows[1])
    assert torch.equal(problem.data.train.stored, stored[~held_out])


@pytest.mark.parametrize("weights", ["", "w.safetensors"])
def test_images_have_moments_of_their_own_unless_a_network_is_pretrained(tmp_path, weights):
    image = pytest.importorskip("PIL.Image")
    generator = np.random.default_rng(0)
    for row in range(40):
        (tmp_path / "images" / "ab"[row % 2]).mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 90, (8, 8, 3), dtype=np.uint8)
        image.fromarray(pixels).save(tmp_path / "images" / "ab"[row % 2] / f"{row}.png")
    settings = quick_settings(
        tmp_path / "images", "CE", dataset="image_folder", image_size=8, noise="none",
        network_weights=weights,
    )  # fmt: skip
    found = load_problem(settings).data.train.preprocessing
    assert (found.files, found.as_bytes) == (True, True)
    if weights:
        assert found.mean.tolist() == pytest.approx([123.675, 116.28, 103.53])
        return
    dataset = load_data(settings)
    expected = Preprocessing.fit(dataset.train_inputs[:])[0]
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.scale, expected.scale)
    assert found.mean.mean() < 60


def test_published_data_have_the_moments_and_splits_of_all_training_rows():
    """The bits of the paper's data sets stay as they are."""
    sklearn = pytest.importorskip("sklearn.datasets")
    values, labels = sklearn.load_digits(return_X_y=True)
    images = (torch.from_numpy(values) * (255 / 16)).round().byte()
    order = torch.randperm(1797, generator=torch.Generator().manual_seed(3))
    train, test = order[359:].sort().values, order[:359].sort().values
    problem = load_problem(resolve({"method": "CE", "noise": "none", "seed": 3}, {}))
    assert torch.equal(problem.test.stored.flatten(1), images[test])
    assert torch.equal(problem.test_labels, torch.from_numpy(labels)[test])
    order = torch.randperm(1438, generator=torch.Generator().manual_seed(3))
    mine = train[order[144:].sort().values]
    assert torch.equal(problem.data.train.stored.flatten(1), images[mine])
    counts = images[train].flatten().bincount(minlength=256).double()
    level = torch.arange(256, dtype=torch.float64) / 255
    mean = float((counts * level).sum() / counts.sum())
    spread = float((counts * (level - mean) ** 2).sum() / counts.sum()) ** 0.5
    preprocessing = problem.data.train.preprocessing
    assert preprocessing.mean.item() == 255 * mean
    assert preprocessing.scale.item() == 255 * spread


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
