"""User data as a data set: splits, classes, parts and the encoding of tables."""

import numpy as np
import pytest
import torch
from data.data_cases import X, Y, folder_part, save
from training_cases import quick_settings

from ptd_ext.experiments import datasets as data
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.datasets.sets.user_data import load_user_data
from ptd_ext.experiments.presets import resolve

RANDOM = np.random.default_rng(0)


def test_rows_are_split_by_the_seed(tmp_path):
    x = np.arange(80.0).reshape(20, 4)
    path = save(tmp_path, x=x, y=np.arange(20) % 4)
    d, same, other = (load_user_data(path, seed, kind="npz") for seed in (3, 3, 4))
    assert (len(d.train_inputs), len(d.test_inputs)) == (16, 4)
    assert torch.equal(torch.cat([d.train_rows, d.test_rows]).sort().values, torch.arange(20))
    assert np.array_equal(d.train_inputs, x[d.train_rows])
    assert torch.equal(d.train_labels, d.train_rows % 4)
    assert torch.equal(d.test_given, d.test_rows % 4)
    assert d.row_names is None
    assert torch.equal(d.test_rows, same.test_rows)
    assert not torch.equal(d.test_rows, other.test_rows)


def test_a_test_part_is_kept(tmp_path):
    x = RANDOM.normal(size=(9, 3, 8, 8)).astype(">f8")
    path = save(tmp_path, x=x, y=np.arange(9) % 2, x_test=-x, y_test=np.arange(9) % 2)
    d = load_user_data(path, 0, kind="npz")
    assert np.array_equal(d.train_inputs, x)
    assert np.array_equal(d.test_inputs, -x)
    assert not d.clean_test


def test_clean_labels(tmp_path):
    clean = np.arange(20) % 5
    x = np.stack([clean, clean], 1).astype(np.float32)
    d = load_user_data(save(tmp_path, x=x, y=np.roll(clean, 1), y_clean=clean), 0, kind="npz")
    assert d.noisy
    assert d.clean_test
    assert d.clean_labels.tolist() == d.train_inputs[:, 0].tolist()
    assert d.test_labels.tolist() == d.test_inputs[:, 0].tolist()
    assert torch.equal((d.clean_labels - 1) % 5, d.train_labels)


def test_classes_are_those_of_all_parts(tmp_path):
    arrays = {"x": X, "y": np.array(list("cdcd")), "x_test": X[:1], "y_test": np.array(["a"])}
    d = load_user_data(save(tmp_path, **arrays), 0, kind="npz")
    assert d.class_names == ("a", "c", "d")
    assert d.train_labels.tolist() == [1, 2, 1, 2]
    assert d.test_labels.tolist() == [0]
    assert d.train_rows.tolist() == [0, 1, 2, 3]
    assert d.test_rows.tolist() == [4]
    names = np.array(["no", "yes", "maybe"])
    d = load_user_data(save(tmp_path, x=X, y=Y, class_names=names), 0, kind="npz")
    assert d.class_names == ("no", "yes", "maybe")


def test_ids_of_the_test_part_stay_exact(tmp_path):
    ids, others = np.arange(4) + 2**53, np.arange(4, dtype=np.uint64) + np.uint64(2**63)
    path = save(tmp_path, x=X, y=Y, x_test=X, y_test=Y, ids=ids, ids_test=others)
    found = load_user_data(path, 0, kind="npz").row_names
    assert found.tolist() == [*ids.tolist(), *others.tolist()]


def test_ids_go_with_their_rows(tmp_path):
    ids = np.array([f"row {n}" for n in range(4)])
    d = load_user_data(save(tmp_path, x=X, y=Y, ids=ids), 0, kind="npz")
    assert d.row_names.tolist() == ids.tolist()
    with pytest.raises(ValueError, match=r"ids of .* must be different from each other"):
        load_user_data(save(tmp_path, x=X, y=Y, ids=Y), 0, kind="npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X, "y": Y * 0}, "must have from 2 to 32,768 classes; it has 1"),
        ({"x": X, "y": Y, "x_test": X[:, :2], "y_test": Y}, r"shape \[3\]; got \[2\]"),
    ],
)
def test_wrong_content(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=message):
        load_user_data(save(tmp_path, **arrays), 0, kind="npz")


def test_paths_of_another_kind(tmp_path):
    with pytest.raises(ValueError, match="--data must name the file or folder of npz; got none"):
        load_user_data(None, 0, kind="npz")
    with pytest.raises(ValueError, match=r"must be of the kind npz; .* of the kind image_folder"):
        load_user_data(tmp_path, 0, kind="npz")


def test_folders_with_parts(tmp_path):
    pytest.importorskip("PIL")
    folder_part(tmp_path, "train")
    folder_part(tmp_path, "val", count=1)
    d = data.load("image_folder", tmp_path, image_size=8)
    assert d.class_names == ("ant", "bee")
    assert d.train_labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert d.train_inputs[:][:, 0, 4, 4].tolist() == [0, 1, 2, 100, 101, 102]
    assert d.test_labels.tolist() == [0, 1]
    assert d.validation is None
    assert d.sample_shape == (3, 8, 8)
    folder_part(tmp_path, "test", count=2)
    d = data.load("image_folder", tmp_path)
    assert d.test_labels.tolist() == [0, 0, 1, 1]
    assert d.test_rows.tolist() == [8, 9, 10, 11]
    assert d.validation.tolist() == [6, 7]
    assert d.train_labels[d.validation].tolist() == [0, 1]
    assert d.train_inputs.name(7) == "val/bee/0.png"
    assert d.sample_shape == (3, 224, 224)


def test_folders_are_split(tmp_path):
    pytest.importorskip("PIL")
    folder_part(tmp_path, ".", count=10)
    d = data.load("image_folder", tmp_path, image_size=8)
    assert (len(d.train_inputs), len(d.test_inputs)) == (16, 4)
    features = d.noise_features()
    assert features.shape == (16, 3 * 32 * 32)
    assert ((features[:, 0] >= 100).long() == d.train_labels).all()


def test_tables_stay_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": np.arange(20.0), "kind": list("uvuw") * 5})
    frame["side"] = np.where(frame["n"] < 10, "left", "right")
    frame.to_csv(tmp_path / "d.csv", index=False)
    d = data.load("table", tmp_path / "d.csv", label="side")
    assert d.class_names == ("left", "right")
    assert d.train_inputs.equals(frame[["n", "kind"]].iloc[d.train_rows.numpy()])
    assert d.test_inputs.equals(frame[["n", "kind"]].iloc[d.test_rows.numpy()])
    assert d.columns.names == ("n", "kind")
    assert d.warnings[:2] == ("n: number", "kind: category of 3 values")
    assert torch.equal(d.test_given, (d.test_rows >= 10).long())
    for options in ({"ignore": ["n"]}, {"columns": ["kind"]}):
        other = data.load("table", tmp_path / "d.csv", label="side", **options)
        assert other.sample_shape == (3,)


def test_texts_become_words(tmp_path):
    pandas = pytest.importorskip("pandas")
    texts = ["salt bread oven", "ball goal team"] * 10
    frame = pandas.DataFrame({"text": texts, "side": ["cook", "sport"] * 10})
    frame.to_csv(tmp_path / "d.csv", index=False)
    d = data.load("table", tmp_path / "d.csv", label="side", text="text")
    assert (len(d.train_inputs), d.sample_shape) == (16, (6,))
    assert d.columns.texts
    problem = load_problem(
        resolve(
            {"dataset": "table", "data": str(tmp_path / "d.csv")}, {"label": "side", "text": "text"}
        )
    )
    preprocessing = problem.data.train.preprocessing
    assert torch.equal(preprocessing.store(texts)[d.test_rows], problem.test.stored)


def test_two_samples_are_enough_to_train_on(tmp_path):
    path = tmp_path / "few.npz"
    for samples in (3, 2):
        np.savez(
            path, x=np.eye(samples, 4), y=np.arange(samples) % 2, x_test=np.eye(2, 4), y_test=[0, 1]
        )
        settings = quick_settings(path, "CE", noise="none", validation_fraction=0.3)
        assert load_problem(settings).data.train_size == 2
    with pytest.raises(ValueError, match="too few samples to train or to validate on: 1 and 1 of"):
        load_problem(settings.replace(data_limit=2))
