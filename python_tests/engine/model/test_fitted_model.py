"""FittedModel: predicts, gives T(x) and judges rows as they come."""

import numpy as np
import pytest
import torch
from engine.model.test_members import member

from ptd_ext.engine.model.fitted_model import FittedModel, Validation
from ptd_ext.engine.model.members import Member
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing

ROWS = np.random.default_rng(0).normal(size=(12, 4))
CLASSES = np.array(["ant", "bee", "cat"])


@pytest.fixture
def model():
    return FittedModel(
        (member(1), member(2)),
        Preprocessing.fit(ROWS)[0],
        CLASSES,
        "PTD-F",
        Validation(3, 0.5, True),
    )


def test_members_predict_the_mean(model):
    inputs = model.inputs(ROWS)
    expected = sum(each.logits(inputs).softmax(1) / 2 for each in model.members)
    found = model.predict_proba(ROWS)
    np.testing.assert_allclose(found, expected.numpy())
    assert model.predict(ROWS).tolist() == CLASSES[found.argmax(1)].tolist()
    assert model.network_name == "own and own"


def test_transitions_and_weights_of_rows(model):
    found = model.transition(ROWS)
    np.testing.assert_allclose(found.sum(2), 1)
    weights = model.weights(ROWS)
    assert weights.shape == (12, 4)
    np.testing.assert_allclose(weights.sum(1), 1)
    parts = torch.cat([each.part_transition.parts for each in model.members]).numpy()
    np.testing.assert_allclose(found, np.einsum("nr,rck->nck", weights, parts))


def test_rows_are_judged_by_the_labels_they_carry(model):
    y = CLASSES[[0, 1, 2] * 4]
    found = model.judge(ROWS, y)
    assert found.posterior.shape == (12, 3)
    torch.testing.assert_close(found.posterior.sum(1), torch.ones(12).double())
    swapped = model.judge(ROWS, np.roll(y, 1)).posterior
    assert (swapped - found.posterior).abs().max() > 1e-3
    sure = torch.eye(3)[[0] * 12]
    torch.testing.assert_close(model.judge(ROWS, y, clean_probs=sure).posterior, sure.double())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["ant"] * 11, "y must have one label for each of 12 rows of X; got 11"),
        (["ant"] * 11 + ["dog"], "dog"),
    ],
)
def test_labels_that_do_not_fit(model, y, message):
    with pytest.raises(ValueError, match=message):
        model.judge(ROWS, y)


def test_labels_in_another_order_are_rejected(model):
    pandas = pytest.importorskip("pandas")
    rows, labels = pandas.DataFrame(ROWS), pandas.Series(CLASSES[[0, 1, 2] * 4])
    with pytest.raises(ValueError, match="y must have the index of X in the same order"):
        model.judge(rows, labels[::-1])


def test_every_kind_of_rows(model):
    expected = model.predict_proba(ROWS)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(ROWS), torch.zeros(12))
    inputs = Inputs(Preprocessing.fit(ROWS)[1], None, model.preprocessing)
    for rows in (ROWS.tolist(), torch.from_numpy(ROWS), dataset, inputs):
        np.testing.assert_allclose(model.predict_proba(rows), expected, atol=1e-6)


def test_a_method_without_transition_only_predicts(model):
    plain = FittedModel(
        (Member("own", model.members[0].network),),
        model.preprocessing,
        CLASSES,
        "CE",
        model.validation,
    )
    assert not plain.has_transition
    assert model.has_transition
    assert plain.predict(ROWS).shape == (12,)
    for call in (plain.transition, plain.weights):
        with pytest.raises(ValueError, match=r"estimates no T\(x\)"):
            call(ROWS)


def test_a_copy_of_another_type(model):
    single = model.to(torch.float32)
    np.testing.assert_allclose(single.predict_proba(ROWS), model.predict_proba(ROWS), atol=1e-5)
    assert single.members[0].network.weight.dtype == torch.float32
    assert model.members[0].network.weight.dtype == torch.float64
