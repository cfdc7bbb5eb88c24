"""Relations between judgements: equivalent data are judged alike, in every route.

Where a relation does not hold exactly, the bound and its reason stand beside the test.
"""

import dataclasses

import numpy as np
import pytest
import torch

import ptd_ext

CLASSES, SIZE, SAMPLES = 3, 5, 240
ROUTES = ["pred_probs", "features", "both"]
# Sums over rows or classes in another order round differently, amplified by iterations.
ROUNDING = {"pred_probs": 1e-5, "features": 1e-5, "both": 1e-5}
PERMUTATION = np.array([2, 0, 1])  # the new index of each class
TWICE = np.tile(np.arange(SAMPLES), 2)


@dataclasses.dataclass(frozen=True)
class Data:
    """Clusters with wrong labels, and the probabilities of the given label."""

    features: np.ndarray
    given: np.ndarray
    pred_probs: np.ndarray

    def rows(self, order):
        return Data(self.features[order], self.given[order], self.pred_probs[order])


def draw(seed, samples=SAMPLES):
    g = np.random.default_rng(seed)
    centres = 2 * g.standard_normal((CLASSES, SIZE)) + 1
    clean = np.arange(samples) % CLASSES
    features = centres[clean] + g.standard_normal((samples, SIZE))
    given = np.where(g.random(samples) < 0.25, (clean + 1) % CLASSES, clean)
    logits = -0.5 * ((features[:, None] - centres) ** 2).sum(2)
    transition = 0.75 * np.eye(CLASSES) + 0.25 * np.roll(np.eye(CLASSES), 1, 1)
    return Data(features, given, torch.from_numpy(logits).softmax(1).numpy() @ transition)


def find(route, rows):
    arguments = {"pred_probs": rows.pred_probs, "features": rows.features}
    if route != "both":
        arguments = {route: arguments[route]}
    return ptd_ext.find_label_issues(None, rows.given, **arguments)


def differing_flags(found, expected):
    return np.flatnonzero(found.is_label_issue != expected.is_label_issue)


def assert_alike(found, expected, *, within, rows=slice(None), old_class=slice(None)):
    """The judgements of rows and classes in another order differ by at most `within`."""
    near = {"rtol": 0, "atol": within}
    quality = expected.label_quality[rows]
    np.testing.assert_allclose(found.label_quality, quality, **near)
    np.testing.assert_allclose(found.posterior, expected.posterior[rows][:, old_class], **near)
    transition = expected.transition[old_class][:, old_class]
    np.testing.assert_allclose(found.transition, transition, **near)
    rate = expected.noise_rate.overall.estimate
    assert found.noise_rate.overall.estimate == pytest.approx(rate, abs=within)
    assert found.trusted
    assert expected.trusted


@pytest.fixture(scope="module", params=range(3))
def data(request):
    return draw(request.param)


@pytest.fixture(scope="module", params=ROUTES)
def route(request):
    return request.param


@pytest.fixture(scope="module")
def base(route, data):
    return find(route, data)


def test_rows_in_another_order(route, data, base):
    order = np.random.default_rng(9).permutation(SAMPLES)
    found = find(route, data.rows(order))
    within = ROUNDING[route]
    assert_alike(found, base, within=within, rows=order)
    np.testing.assert_array_equal(found.is_label_issue, base.is_label_issue[order])


def test_classes_in_another_order(route, data, base):
    old_class = np.argsort(PERMUTATION)
    renumbered = Data(data.features, PERMUTATION[data.given], data.pred_probs[:, old_class])
    found = find(route, renumbered)
    assert_alike(found, base, within=ROUNDING[route], old_class=old_class)


@pytest.mark.parametrize("names", [["a", "b", "c"], [-5, 0, 100]])
def test_other_names_of_classes_change_nothing(route, data, base, names):
    found = find(route, dataclasses.replace(data, given=np.array(names)[data.given]))
    assert_alike(found, base, within=0)
    assert len(differing_flags(found, base)) == 0
    assert found.suggested_label.tolist() == np.array(names)[base.suggested_label].tolist()


@pytest.mark.parametrize(
    "change",
    [lambda x: x[:, [3, 1, 4, 0, 2]], lambda x: 1000 * x, lambda x: x * -1, lambda x: x / 3],
    ids=["permuted", "larger", "negated", "smaller"],
)
def test_columns_in_another_order_and_scale(route, data, base, change):
    """Similarities round differently, which matters for rows that are as near as each other."""
    found = find(route, dataclasses.replace(data, features=change(data.features)))
    assert_alike(found, base, within=ROUNDING[route])


def test_shifted_features(route, data, base):
    """A shift turns directions, and neighbours are found by cosine: single rows may be judged anew.

    T and the rate then come from another set of neighbours of the same number, so that they differ
    by their sampling errors: within four of them.
    """
    found = find(route, dataclasses.replace(data, features=data.features + 3))
    if route == "pred_probs":
        assert_alike(found, base, within=0)
        return
    rate = base.noise_rate.overall.estimate
    error = (rate * (1 - rate) / SAMPLES) ** 0.5
    assert found.noise_rate.overall.estimate == pytest.approx(rate, abs=4 * error)
    by_class = error * CLASSES**0.5
    np.testing.assert_allclose(found.transition, base.transition, rtol=0, atol=4 * by_class)


def test_every_row_doubled(route, data, base):
    found = find(route, data.rows(TWICE))
    if route != "pred_probs":  # copies of features count once
        assert_alike(found, base, within=ROUNDING[route], rows=TWICE)
        return
    # Twice as many labels outweigh the start of T more.
    difference = np.abs(found.label_quality - base.label_quality[TWICE])
    assert difference.mean() < 0.02
    assert (found.is_label_issue != base.is_label_issue[TWICE]).mean() < 0.02


def test_a_forged_label_is_found_and_hardly_changes_others(route, data, base):
    """A label counts 1 / n in its class of n rows, and for the few rows that it is a neighbour of.

    The posterior of another row may move by more where it lies between two classes: 0.35 at most
    here, and 0.02 in the mean.
    """
    row = int(base.label_quality.argmax())
    given = data.given.copy()
    given[row] = (given[row] + 1) % CLASSES
    found = find(route, dataclasses.replace(data, given=given))
    assert found.is_label_issue[row]
    assert found.suggested_label[row] == data.given[row]
    others = np.delete(found.label_quality - base.label_quality, row)
    assert np.abs(others).max() <= 0.35
    assert np.abs(others).mean() <= 0.02
    n = np.bincount(data.given).min()
    np.testing.assert_allclose(found.transition, base.transition, rtol=0, atol=2 / n)


# Training -----------------------------------------------------------------------------------------

TRAINED = 600


def train(rows):
    return ptd_ext.PTDClassifier(network="linear", epochs=20, random_state=0).fit(
        rows.features, rows.given
    )


@pytest.fixture(scope="module")
def trained():
    rows = draw(0, TRAINED)
    return rows, train(rows)


@pytest.mark.slow
def test_training_does_not_depend_on_names_nor_on_scale_and_shift(trained):
    """Columns are standardised in float64: only the rounding to float32 can differ."""
    rows, model = trained
    scaled = dataclasses.replace(
        rows,
        features=rows.features * 3.0 ** np.arange(SIZE) + 7,
        given=np.array(["a", "b", "c"])[rows.given],
    )
    found = train(scaled).label_issues_
    assert_alike(found, model.label_issues_, within=1e-4)
    assert len(differing_flags(found, model.label_issues_)) <= CLASSES


@pytest.mark.slow
@pytest.mark.parametrize("change", ["rows", "classes", "columns", "twice", "forged"])
def test_training_on_equivalent_data(trained, change):
    """Another order draws another split, other batches and other initial weights.

    The judgement then differs as that of another seed does: the rate by its sampling error (four
    of them), T by that of a class, the flags in a tenth of the rows.
    """
    rows, model = trained
    expected, order, old_class = model.label_issues_, np.arange(TRAINED), np.arange(CLASSES)
    if change == "rows":
        order = np.random.default_rng(9).permutation(TRAINED)
    elif change == "twice":
        order = np.tile(order, 2)
    changed = rows.rows(order)
    forged = int(expected.label_quality.argmax())
    if change == "classes":
        old_class = np.argsort(PERMUTATION)
        changed = dataclasses.replace(rows, given=PERMUTATION[rows.given])
    elif change == "columns":
        changed = dataclasses.replace(rows, features=rows.features[:, ::-1].copy())
    elif change == "forged":
        changed.given[forged] = (changed.given[forged] + 1) % CLASSES
    found = train(changed).label_issues_
    rate = expected.noise_rate.overall.estimate
    error = (rate * (1 - rate) / TRAINED) ** 0.5
    assert found.noise_rate.overall.estimate == pytest.approx(rate, abs=4 * error)
    transition = expected.transition[old_class][:, old_class]
    atol = 4 * error * CLASSES**0.5
    np.testing.assert_allclose(found.transition, transition, rtol=0, atol=atol)
    assert (found.is_label_issue != expected.is_label_issue[order]).mean() <= 0.1
    if change == "forged":
        assert found.is_label_issue[forged]
        assert found.suggested_label[forged] == rows.given[forged]


@pytest.mark.slow
def test_ten_shards_are_predicted_as_one(trained):
    rows, model = trained
    for method in (model.predict_proba, model.transition):
        shards = np.concatenate([method(part) for part in np.array_split(rows.features, 10)])
        np.testing.assert_allclose(shards, method(rows.features), rtol=0, atol=1e-6)
