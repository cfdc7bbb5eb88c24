"""PTDClassifier: scikit-learn's own checks, the kinds of input, and what it finds."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_wine
from sklearn.utils.estimator_checks import parametrize_with_checks

import ptd_ext
from ptd_ext.engine.rows.split import hold_out
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.label_issues.cross_fit import fold_rows
from ptd_ext.utils import tensor_files


def quick(**options):
    return ptd_ext.PTDClassifier(
        **{"network": "linear", "epochs": 10, "random_state": 0, **options}
    )


@pytest.fixture(scope="module")
def wine():
    rows, y = load_wine(return_X_y=True)
    noise = ptd_ext.noise.symmetric_noise(y, 0.3, random_state=0)
    return rows, y, noise.noisy_labels.numpy()


@pytest.mark.slow
@parametrize_with_checks([quick(method="EM-F", epochs=50)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_defaults_find_wrong_labels():
    rows, y = load_digits(return_X_y=True)
    noise = ptd_ext.instance_dependent_noise(rows.astype(np.float32), y, 0.3, random_state=7)
    given = noise.noisy_labels.numpy()
    wrong = given != y
    model = ptd_ext.PTDClassifier(random_state=0).fit(rows, given)
    found = model.label_issues_
    assert found.trusted
    assert abs(found.is_label_issue.sum() / wrong.sum() - 1) < 0.25
    assert wrong[found.is_label_issue].mean() > 0.9
    flagged_wrong = wrong & found.is_label_issue
    assert (found.suggested_label[flagged_wrong] == y[flagged_wrong]).mean() > 0.9
    assert model.score(rows, y) > 0.9


def test_every_row_is_judged_under_its_own_id(wine):
    pandas = pytest.importorskip("pandas")
    rows, _, given = wine
    names = np.array(["red", "rosé", "white"])[given]
    index = [f"bottle {row}" for row in range(len(rows))]
    frame = pandas.DataFrame(rows, index=index).add_prefix("c")
    frame["origin"] = pandas.Categorical(np.where(rows[:, 0] > 13, "north", "south"))
    found = ptd_ext.find_label_issues(frame, pandas.Series(names), network="linear", epochs=10)
    assert found.table["id"].tolist() == index
    assert found.table["given_label"].tolist() == names.tolist()
    assert set(found.suggested_label) <= {"red", "rosé", "white"}
    assert list(found.table.columns) == [
        "id", "given_label", "suggested_label", "label_quality", "is_label_issue",
        "suggested_probability", "verified",
    ]  # fmt: skip
    assert list(found.sample(3).row)[:2] == ["c0", "c1"]


def as_tensor(rows):
    return torch.from_numpy(rows)


def as_sparse(rows):
    return pytest.importorskip("scipy.sparse").csr_array(rows)


def as_sparse_tensor(rows):
    return torch.from_numpy(rows).to_sparse()


def as_sparse_rows(rows):
    return torch.from_numpy(rows).to_sparse_csr()


def as_reversed_array(rows):
    return rows[::-1].copy()[::-1]


@pytest.mark.parametrize(
    "convert",
    [as_tensor, as_sparse, as_sparse_tensor, as_sparse_rows, as_reversed_array, np.ndarray.tolist],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR")  # torch calls it a beta
def test_kinds_of_rows_give_the_same(wine, convert):
    rows, _, given = wine
    plain = quick().fit(rows, given)
    other = quick().fit(convert(rows), given)
    np.testing.assert_allclose(
        other.predict_proba(convert(rows)), plain.predict_proba(rows), atol=1e-4
    )


def test_wide_sparse_rows_are_reduced():
    sparse = pytest.importorskip("scipy.sparse")
    generator = np.random.default_rng(0)
    rows = sparse.random_array((80, 3000), density=0.01, rng=generator, format="csr")
    labels = np.arange(80) % 2
    rows = (rows + sparse.csr_array(np.outer(labels, np.arange(3000) < 30))).tocsr()
    model = quick().fit(rows, labels)
    assert model.predict_proba(rows[:5]).shape == (5, 2)
    assert model.model_.members[0].network.fc.in_features < 80


def test_datasets_and_images():
    torch.manual_seed(0)
    labels = torch.arange(60) % 3
    images = torch.randint(0, 50, (60, 1, 12, 12), dtype=torch.uint8)
    for label in range(3):
        images[labels == label, :, 4 * label : 4 * label + 4] += 150
    dataset = torch.utils.data.TensorDataset(images, labels)
    model = ptd_ext.PTDClassifier(epochs=8, random_state=0).fit(dataset)
    assert model.network_name_ == "lenet5"
    assert model.transition(images[:4]).shape == (4, 3, 3)
    assert model.classes_.tolist() == [0, 1, 2]
    found = ptd_ext.find_label_issues(images, labels, epochs=2)
    assert found.sample(0).png.startswith(b"\x89PNG")


def test_large_images_need_features():
    images = torch.rand(12, 3, 120, 120)
    labels = [0, 1] * 6
    with pytest.raises(ValueError, match=r"images of 120 × 120 pixels.*encoder="):
        ptd_ext.PTDClassifier().fit(images, labels)
    seen = []

    def means(batch):
        seen.append(len(batch))
        return batch.mean((2, 3))

    model = quick(encoder=means).fit(images, labels)
    assert model.n_features_in_ == 3
    assert sum(seen) == 12
    with pytest.raises(ValueError, match=r"must return embeddings \[12, D\]"):
        quick(encoder=lambda batch: batch).fit(images, labels)


def test_saved_and_loaded_predicts_the_same(wine, tmp_path):
    rows, _, given = wine
    names = np.array(["a", "b", "c"])[given]
    for method in ("EM-F", "PTD-L", "PTD-F"):
        model = quick(method=method, n_parts=3).fit(rows, names)
        model.save(tmp_path / "model.safetensors")
        other = ptd_ext.PTDClassifier.load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(other.predict_proba(rows), model.predict_proba(rows))
        np.testing.assert_allclose(other.transition(rows), model.transition(rows), rtol=1e-12)
        assert other.predict(rows[:3]).tolist() == model.predict(rows[:3]).tolist()
        assert other.get_params()["method"] == method


def test_categories_count_as_one_column(wine, tmp_path):
    pandas = pytest.importorskip("pandas")
    rows, _, given = wine
    frame = pandas.DataFrame({"alcohol": rows[:, 0], "origin": np.array(["n", "s", "e"])[given]})
    model = quick(epochs=1).fit(frame, given)
    model.save(tmp_path / "model.safetensors")
    for each in (model, ptd_ext.PTDClassifier.load(tmp_path / "model.safetensors")):
        assert each.n_features_in_ == len(each.feature_names_in_) == 2


def test_files_of_another_kind_are_rejected(wine, tmp_path):
    path = tmp_path / "part.safetensors"
    ptd_ext.PartTransition(torch.eye(3)[None]).save(path)
    with pytest.raises(ValueError, match="must hold a fitted model"):
        ptd_ext.PTDClassifier.load(path)
    rows, _, given = wine
    model = quick().fit(rows, [("x", int(each)) for each in given])
    with pytest.raises(TypeError, match="classes must be numbers or strings to be saved"):
        model.save(path)


def test_a_file_imports_nothing_by_itself(wine, tmp_path):
    """Its network may be a function of the user's own, which the user has to name again."""
    path = tmp_path / "model.safetensors"
    rows, _, given = wine
    own = "ptd_ext.engine.networks.mlp:MLP"
    quick(network=own).fit(rows, given).save(path)
    with pytest.raises(ValueError, match=r"its network is your own, .*: give that name"):
        ptd_ext.PTDClassifier.load(path)
    with pytest.raises(ValueError, match="its network is your own"):
        ptd_ext.PTDClassifier.load(path, network="os:system")
    assert ptd_ext.PTDClassifier.load(path, network=own).predict(rows[:3]).shape == (3,)


def test_shapes_that_a_file_names_cost_nothing(wine, tmp_path):
    """Neither rows of a million million numbers nor labels of a gigabyte are made."""
    path = tmp_path / "model.safetensors"
    rows, _, given = wine
    model = quick(network="linear").fit(rows, np.array(["a", "b", "c"])[given])
    model.save(path)
    tensors, about = tensor_files.read(path, "a fitted model", (), 2)
    tensor_files.write(path, "a fitted model", tensors, {**about, "class_type": "<U500000000"}, 2)
    assert ptd_ext.PTDClassifier.load(path).classes_.dtype == "<U1"
    tensor_files.write(path, "a fitted model", tensors, {**about, "shape": [10**12]}, 2)
    with pytest.raises(ValueError, match=r"is not a usable model: shape must be"):
        ptd_ext.PTDClassifier.load(path)


def test_rows_judged_without_their_fold(wine):
    rows, y, given = wine
    found = ptd_ext.find_label_issues(rows, given, network="linear", epochs=30, cross_fit=3)
    wrong = given != y
    assert found.facts["folds"] == "3"
    once = ptd_ext.find_label_issues(rows, iter(given), network="linear", epochs=1, cross_fit=2)
    assert once.given_label.tolist() == given.tolist()
    assert found.label_quality[wrong].mean() + 0.2 < found.label_quality[~wrong].mean()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cross_fit": 1}, "cross_fit must be 0 or at least 2; got 1"),
        ({"cross_fit": 2.5}, "cross_fit must be 0 or at least 2; got 2.5"),
        ({"cross_fit": 1000}, "cross_fit must be 0 or from 2 to the 12 rows; got 1000"),
        ({"cross_fit": 2}, "with 2 folds, fold . leaves 6 of 1"),
        ({"ids": range(5)}, "ids must have one row for each of 12 labels; got 5"),
        ({"flag_share": float("nan")}, "flag_share must be a finite number of at least 0; got nan"),
        ({"device": "nope"}, "device must be auto, cpu, cuda or cuda:1; got 'nope'"),
        ({"random_state": 2**70}, "random_state must be an integer from 0 to"),
        ({"random_state": "a"}, "random_state must be an integer from 0 to .*; got 'a'"),
        ({"random_state": 1.5}, "random_state must be an integer from 0 to .*; got 1.5"),
        ({"epochs": 1.5}, "epochs must be an integer >= 1; got 1.5"),
        ({"network": "mpl"}, "network must be one of auto, linear, mlp"),
        ({"encoder": 7}, "encoder must be a function, a file of weights or"),
    ],
)
def test_settings_are_checked_before_the_training(monkeypatch, options, sentence):
    def train(*_, **__):
        raise AssertionError("training began")

    monkeypatch.setattr(Trainer, "train", train)
    labels = ["once", *["often"] * 11]
    with pytest.raises(ValueError, match=sentence):
        ptd_ext.find_label_issues(np.arange(24.0).reshape(12, 2), labels, **options)


def test_folds_share_the_extracted_features():
    images = torch.rand(60, 3, 100, 100, generator=torch.Generator().manual_seed(0))
    seen = []

    def extractor(batch):
        seen.append(len(batch))
        return batch.mean((2, 3))

    options = {"epochs": 1, "encoder": extractor, "cross_fit": 2}
    found = ptd_ext.find_label_issues(images, np.arange(60) % 2, progress=False, **options)
    assert (sum(seen), len(found)) == (60, 60)


def test_large_seeds():
    """scikit-learn, which folds, takes seeds of 32 bits only."""
    assert len(fold_rows([0, 1] * 6, 3, seed=2**40)) == 3


def test_features_at_chance_find_nothing():
    generator = np.random.default_rng(1)
    found = ptd_ext.find_label_issues(
        generator.normal(size=(200, 5)),
        generator.integers(2, size=200),
        network="linear",
        epochs=10,
    )
    assert not found.trusted
    assert not found.is_label_issue.any()
    assert "Try better features" in found.warnings[0]


BAD_ROWS = {
    "one class": (np.ones((9, 2)), np.zeros(9), "at least two classes"),
    "lengths": (np.ones((9, 2)), np.zeros(8), "X has 9 rows and y 8 labels"),
    "NaN": (np.array([[1.0], [np.nan], [2.0], [3.0]]), [0, 1, 0, 1], "NaN"),
    "large": (np.array([[1e308], [-1e308], [1e308], [0]]), [0, 1, 0, 1], "too large .* column 0"),
    "many classes": (
        np.ones((99_999, 1)),
        np.arange(99_999),
        "99,999 classes; 10 matrices",
    ),
    "few": (np.ones((3, 2)), [0, 1, 0], "at least 4 samples"),
    "channels last": (
        np.ones((9, 8, 8, 3)),
        [0, 1, 0] * 3,
        r"\[9, 8, 8, 3\] look like \[N, height",
    ),
    "no labels": (np.ones((3, 2)), None, "requires y to be passed"),
    "missing label": (np.ones((4, 2)), ["a", None, "b", "a"], "a missing label at row 1"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_get_a_sentence(case):
    rows, y, sentence = BAD_ROWS[case]
    with pytest.raises(ValueError, match=sentence):
        quick().fit(rows, y)


def test_bad_frames_get_a_sentence():
    pandas = pytest.importorskip("pandas")
    labels = [0, 1] * 10
    frame = pandas.DataFrame({"name": [f"id{row}" for row in range(40)]})
    with pytest.raises(ValueError, match=r"must have a column to learn from; .*name: left out"):
        quick().fit(frame, labels * 2)
    with pytest.raises(ValueError, match="columns must name columns of X; it has no column 'age'"):
        quick(columns=["name", "age"]).fit(frame, labels * 2)
    with pytest.raises(ValueError, match="columns and ignore must not be given unless X is a data"):
        quick(ignore=["age"]).fit(np.ones((20, 2)), labels)
    with pytest.raises(ValueError, match="inconsistent numbers of samples: X has 40 rows and y 20"):
        quick().fit(frame, labels)
    for names in (["size", "size"], [1, "1"]):
        with pytest.raises(ValueError, match=f"several columns '{names[1]}'"):
            quick().fit(pandas.DataFrame(np.ones((20, 2)), columns=names), labels)
    kinds = pandas.DataFrame({"size": range(20), "kind": ["a", "b"] * 10})
    model = quick().fit(kinds, labels)
    assert model.feature_names_in_.tolist() == ["size", "kind"]
    assert model.predict(pandas.DataFrame({"size": [3], "kind": ["never seen"]})).shape == (1,)
    with pytest.raises(ValueError, match="must have the columns of fit; it lacks 'kind'"):
        model.predict(kinds[["size"]])


def table_of_all_kinds(rows=120):
    """A table of which only one column tells the classes apart: its comments."""
    pandas = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    y = np.arange(rows) % 2
    words = np.array([["bad", "poor", "awful", "broken"], ["good", "nice", "great", "fine"]])
    frame = pandas.DataFrame(
        {
            "customer_id": generator.permutation(rows) + 1000,
            "age": np.where(generator.random(rows) < 0.1, np.nan, generator.normal(40, 9, rows)),
            "joined": pandas.date_range("2020-01-01", periods=rows).strftime("%d.%m.%Y"),
            "active": generator.random(rows) < 0.5,
            "amount": [f"{value:.2f}" for value in generator.normal(size=rows)],
            "country": generator.choice(["de", "fr", None], rows),
            "comment": [" ".join(generator.choice(words[k], 4)) + f" {n}" for n, k in enumerate(y)],
            "version": "v1",
        }
    )
    frame.loc[3, "amount"] = "?"
    return frame, np.array(["leave", "keep"])[y]


def test_a_table_of_all_kinds_comes_back_from_a_file(tmp_path):
    """Fitted as it comes; the file predicts the same, also missing values and new categories."""
    frame, y = table_of_all_kinds()
    given = y.copy()
    given[:6] = np.where(given[:6] == "keep", "leave", "keep")
    model = quick().fit(frame, given)
    found = model.label_issues_
    assert set(np.argsort(found.label_quality)[:6]) == set(range(6))
    assert "customer_id: left out: another value in every row, like an id" in found.notes
    assert found.facts["columns"] == (
        "3 numbers, 1 date, 1 category, 1 text; left out: customer_id, version"
    )
    new = frame[-8:].astype(object).reset_index(drop=True)
    new.loc[:4, ["age", "joined", "active", "amount", "country"]] = None
    new.loc[1, "country"] = "nowhere"
    new.loc[2, "comment"] = None
    new = new.drop(columns=["customer_id", "version"])
    model.save(tmp_path / "model.safetensors")
    loaded = ptd_ext.PTDClassifier.load(tmp_path / "model.safetensors")
    assert np.array_equal(model.predict_proba(new), loaded.predict_proba(new))
    with_comments = [0, 1, 3, 4, 5, 6, 7]
    assert (loaded.predict(new) == y[-8:])[with_comments].mean() > 0.8
    assert (loaded.n_features_in_, list(loaded.feature_names_in_)) == (8, list(frame.columns))


def test_held_out_rows_change_no_median():
    frame, y = table_of_all_kinds()
    model = quick(validation_fraction=0.25).fit(frame, y)
    train = hold_out(torch.arange(1, 121) % 2, 0.25, 0)[0].numpy()
    entry = model.model_.preprocessing.columns.entries[1]
    assert entry.median == pytest.approx(frame["age"].iloc[train].median())
    assert entry.median != pytest.approx(frame["age"].median())


def test_texts_come_back_from_a_file(tmp_path):
    frame, y = table_of_all_kinds()
    texts = frame["comment"].tolist()
    model = quick().fit(texts, y)
    assert (model.predict(texts) == y).mean() > 0.95
    model.save(tmp_path / "model.safetensors")
    loaded = ptd_ext.PTDClassifier.load(tmp_path / "model.safetensors")
    assert not hasattr(loaded, "feature_names_in_")
    assert np.array_equal(model.predict_proba(texts[:9]), loaded.predict_proba(texts[:9]))
    with pytest.raises(TypeError, match="X must be texts, as in fit"):
        loaded.predict(np.ones((2, 1)))


def test_columns_and_ignore():
    frame, y = table_of_all_kinds()
    model = quick(columns=["customer_id", "comment"]).fit(frame, y)
    assert model.model_.preprocessing.columns.brief().startswith("1 number, 1 text; left out: age")
    model = quick(ignore=["comment"]).fit(frame, y)
    assert "comment: left out, as asked" in model.label_issues_.notes


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a" * 500, 1.0]] * 20, r"could not convert string to float: .{,90}Give a data frame"),
        ([[np.nan, 1.0]] * 20, "Input X contains NaN. Give a data frame, whose missing values"),
    ],
)
def test_arrays_that_a_data_frame_could_hold(rows, message):
    with pytest.raises(ValueError, match=message) as raised:
        quick().fit(np.array(rows, dtype=object), [0, 1] * 10)
    assert len(str(raised.value)) < 300


def test_a_class_of_one_row_and_fewer_rows_than_parts():
    rows = np.vstack([np.random.default_rng(0).normal(size=(9, 3)), 9 * np.ones((1, 3))])
    model = quick(method="PTD-L", n_parts=20).fit(rows, [0, 1, 2] * 3 + ["alone"])
    assert model.classes_.tolist() == [0, 1, 2, "alone"]
    assert len(model.label_issues_) == 10


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "CE"}, "method must be one with a T\\(x\\)"),
        ({"validation_fraction": 1.0}, "validation_fraction must be more than 0"),
    ],
)
def test_bad_parameters_get_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        quick(**options).fit(np.ones((4, 2)), [0, 1, 0, 1])


def test_a_rejected_fit_leaves_the_fitted_model(wine):
    """It predicts as before, also where the rows are rejected after others have been read."""
    rows, _, given = wine
    model = quick().fit(rows, given)
    before, attributes = model.predict_proba(rows), dict(vars(model))
    for X, y in (  # noqa: N806
        (rows[:, :4], given[:-1]),
        (rows[:, :4], np.zeros(len(rows))),
        (rows[:3, :4], given[:3]),
        (rows[:, :4], [None, *given[1:]]),
    ):
        with pytest.raises(ValueError, match=r"inconsistent|two classes|at least 4|missing label"):
            model.fit(X, y)
        assert vars(model) == attributes
    np.testing.assert_array_equal(model.predict_proba(rows), before)
    model.method = "CE"
    with pytest.raises(ValueError, match="method must be"):
        model.fit(rows, given)
    np.testing.assert_array_equal(model.predict_proba(rows), before)


def test_finite_pictures_that_overflow_are_rejected():
    """Their probabilities would be NaN, and the first class would be predicted."""
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 2
    images = generator.random((60, 1, 28, 28)) + labels[:, None, None, None]
    model = ptd_ext.PTDClassifier("EM-F", network="lenet5", epochs=1).fit(images, labels)
    images[4, 0, 0, 0] = 3e38
    with pytest.raises(ValueError, match="those of row 4 exceed what the network"):
        model.predict(images)
    images[4, 0, 0, 0] = 1e39
    with pytest.raises(ValueError, match="a number beyond float32 in image 4"):
        model.predict(images)


def test_verified_labels_are_learned_from_and_never_flagged():
    generator = np.random.default_rng(0)
    true = np.arange(400) % 2
    x = generator.normal(size=(400, 3)) + 1.5 * true[:, None]
    given = np.where(generator.random(400) < 0.3, 1 - true, true)
    verified = {row: int(true[row]) for row in range(0, 400, 3)}
    options = {"method": "PTD-L", "network": "linear", "epochs": 3}
    model = ptd_ext.PTDClassifier(**options).fit(x, given, verified=verified)
    found = model.label_issues_
    assert found.is_verified.sum() == 134
    assert not found.is_label_issue[::3].any()
    assert abs(float(found.noise_rate) - (given != true).mean()) < 0.06
    plain = ptd_ext.PTDClassifier(**options).fit(x, given)
    assert (model.predict_proba(x) != plain.predict_proba(x)).any()
    with pytest.raises(ValueError, match="id in decision 0 must be among the ids of the data"):
        ptd_ext.PTDClassifier(**options).fit(x, given, verified={400: 1})
