"""find_label_issues: arguments that fit each other, ids, and when nothing is flagged."""

import inspect
import itertools

import numpy as np
import pytest
import torch

import ptd_ext
from ptd_ext.engine.model.chance import labels_follow_rows
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.label_issues.find import find_label_issues

pytest.importorskip("sklearn")
QUICK = {"network": "linear", "epochs": 1}
X, Y = np.arange(20.0)[:, None], np.arange(20) // 10
PROBS = np.full((20, 2), 0.5)


def test_a_network_no_better_than_chance_flags_nothing_though_labels_follow_the_rows():
    """Forty rows that a line separates, and a network that has hardly begun to learn."""
    generator = np.random.default_rng(0)
    labels = np.arange(40) % 2
    rows = generator.standard_normal((40, 2)) + 6 * labels[:, None]
    assert labels_follow_rows(torch.from_numpy(rows), torch.from_numpy(labels))
    found = ptd_ext.find_label_issues(rows, labels, method="EM-F", **QUICK)
    assert not found.trusted
    assert not found.is_label_issue.any()


def test_rows_that_share_an_id_cause_a_warning():
    for ids, warned in ((np.arange(20) // 2, True), (np.arange(20), False)):
        found = find_label_issues(X, Y, ids=ids, **QUICK)
        assert any("Some rows share an id" in text for text in found.warnings) == warned
        assert found.ids.tolist() == ids.tolist()


def test_ids_are_the_index_of_rows_or_labels():
    pandas = pytest.importorskip("pandas")
    index = [f"row {number}" for number in range(20)]
    frame, labels = pandas.DataFrame(X, index=index), pandas.Series(Y, index=index)
    for rows, y in ((frame, Y), (X, labels), (frame, labels)):
        assert find_label_issues(rows, y, **QUICK).ids.tolist() == index


def test_rows_in_another_order_are_rejected():
    """Whichever two of the arguments they are: rows are paired by position."""
    pandas = pytest.importorskip("pandas")
    index = [f"row {number}" for number in range(20)]
    given = {
        "X": pandas.DataFrame(X, index=index),
        "y": pandas.Series(Y, index=index),
        "pred_probs": pandas.DataFrame(PROBS, index=index),
        "features": pandas.DataFrame(X, index=index),
        "ids": pandas.Series(range(20), index=index),
    }
    plain = {"X": None, "y": Y, "pred_probs": PROBS}
    find_label_issues(**given)
    for first, second in itertools.combinations(given, 2):
        some = {first: given[first], second: given[second][::-1]}
        with pytest.raises(ValueError, match=f"{second} must have the index of {first} in the"):
            find_label_issues(**{**plain, **some})


def test_labels_may_be_an_iterator_or_those_of_a_dataset():
    expected = find_label_issues(X, Y, **QUICK)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    for rows, y in ((X, iter(Y.tolist())), (dataset, None)):
        found = find_label_issues(rows, y, **QUICK)
        np.testing.assert_allclose(found.label_quality, expected.label_quality, atol=1e-5)


def test_texts_are_judged_as_they_come():
    """A list, a column of pandas with its index, and cross-fitting."""
    pandas = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    words = np.array([["salt", "oven", "bread", "soup"], ["ball", "goal", "team", "run"]])
    clean = np.arange(80) % 2
    texts = [" ".join(generator.choice(words[label], 5)) for label in clean]
    given = np.where(np.arange(80) < 5, 1 - clean, clean)
    index = [f"row {number}" for number in range(80)]
    for rows, ids in ((texts, list(range(80))), (pandas.Series(texts, index=index), index)):
        for folds in (0, 2):
            found = find_label_issues(rows, given, cross_fit=folds, network="linear", epochs=20)
            assert set(np.argsort(found.label_quality)[:5]) == set(range(5))
            assert found.ids.tolist() == ids
            assert found.notes == ("text: text of 8 different words (TF-IDF)",)
            assert found.sample(7).text == texts[7]


PROBS = np.full((20, 2), 0.5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"X": None, "y": Y}, ValueError, "X must hold the rows, unless pred_probs or features"),
        (
            {"X": X, "y": Y, "classes": [0, 1]},
            TypeError,
            "classes must be given with pred_probs",
        ),
        ({"X": None, "y": Y, "pred_probs": PROBS, "cross_fit": 2}, TypeError, "cross_fit must not"),
        ({"X": None, "y": Y, "pred_probs": PROBS, "n_parts": 2}, TypeError, "n_parts must not be"),
        ({"X": X[:9], "y": Y, "pred_probs": PROBS}, ValueError, "each of 20 labels; got 9"),
        ({"X": X, "y": Y, "flag_share": -1}, ValueError, "flag_share must be a finite number"),
        ({"X": X, "y": Y, "ids": [1, 2]}, ValueError, "ids must have one row for each of 20"),
        ({"X": X, "y": Y, "n_parts": 0}, ValueError, "n_parts must be an integer from 1"),
    ],
)
def test_arguments_that_do_not_fit_each_other(arguments, error, message):
    with pytest.raises(error, match=message):
        find_label_issues(**arguments)


def test_verified_labels_count_in_every_way_of_judging():
    """Also those that correct labels; the file of a review and a mapping are alike."""
    rng = np.random.default_rng(0)
    true = np.arange(300) % 3
    rows = (3 * np.eye(3)[true] + rng.normal(size=(300, 3))).astype(np.float32)
    given = np.where(rng.random(300) < 0.3, (true + 1) % 3, true)
    probs = 0.6 * np.eye(3)[true] + 0.2 * np.eye(3)[(true + 1) % 3] + 0.2 / 3
    ids = np.array([f"r{row}" for row in range(300)])
    verified = {f"r{row}": int(true[row]) for row in range(0, 300, 5)}
    training = {"method": "EM-F", "network": "linear", "epochs": 2, "progress": False}
    for x, options in (
        (rows, training),
        (None, {"pred_probs": probs}),
        (None, {"features": rows}),
        (None, {"pred_probs": probs, "features": rows}),
    ):
        before = find_label_issues(x, given, ids=ids, **options)
        found = find_label_issues(x, given, ids=ids, verified=verified, **options)
        assert not found.is_label_issue[::5].any()
        assert (found.suggested_label[::5] == true[::5]).all()
        assert found.is_verified.sum() == 60
        rate = (given != true).mean()
        assert abs(float(found.noise_rate) - rate) <= max(
            0.08, abs(float(before.noise_rate) - rate)
        )


def test_verified_labels_are_checked_before_the_training():
    y = np.array([0, 1, 0, 1])
    with pytest.raises(ValueError, match="id in decision 0 must be among the ids of the data"):
        find_label_issues(np.zeros((4, 2)), y, verified={9: 1}, network="unknown")


def test_function_class_and_command_have_the_same_defaults():
    """`ptd-ext labels` takes its defaults from the class, `ptd-ext train` from the settings."""
    settings = {name: entry.default for name, entry in Settings.entries().items()}
    settings["random_state"] = settings.pop("seed")
    function, classifier = defaults(find_label_issues), defaults(ptd_ext.PTDClassifier)
    # `progress` depends on the terminal; None and "auto" stand for a choice that suits the data.
    suited = {"progress", "epochs", "device"}
    for one, other in itertools.combinations((function, classifier, settings), 2):
        shared = (one.keys() & other.keys()) - suited
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}
    assert {"flag_share", "random_state"} <= function.keys() & classifier.keys()
    assert {"method", "network", "n_parts"} <= classifier.keys() & settings.keys()


def defaults(function):
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}
