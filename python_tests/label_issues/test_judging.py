"""From a fitted model to findings."""

import dataclasses

import numpy as np
import pytest
import torch
from engine.model.test_members import member

from ptd_ext.engine.model.fitted_model import FittedModel, Validation
from ptd_ext.engine.model.members import judge_rows
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.label_issues.judging import findings_of, judge_labels

CLASSES = np.array(["ant", "bee", "cat"])
CODES = np.random.default_rng(1).integers(3, size=60)


@pytest.fixture
def model():
    return FittedModel(
        (member(1), member(2)),
        Preprocessing.fit(np.eye(4))[0],
        CLASSES,
        "PTD-F",
        Validation(20, 0.625, True),
        {"training loss": [1.0, 0.5]},
    )


@pytest.fixture
def rows(model):
    stored = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    return [
        Inputs(stored[:40], None, model.preprocessing),
        Inputs(stored[40:], None, model.preprocessing),
    ]


def test_findings_are_the_judgement_of_the_model(model, rows):
    found = judge_labels(model, rows, GivenLabels(CODES, CLASSES))
    judged = judge_rows(model.members, rows, torch.from_numpy(CODES))
    expected = judged.posterior[torch.arange(60), torch.from_numpy(CODES)]
    np.testing.assert_allclose(found.label_quality, expected.numpy(), rtol=1e-5)
    assert found.given_label.tolist() == CLASSES[CODES].tolist()
    np.testing.assert_allclose(found.transition, judged.transition.numpy())
    assert found.parts.shape == (4, 3, 3)
    assert found.trusted
    assert found.curves == model.curves
    assert found.facts["method"] == "PTD-F"
    assert found.facts["network"] == "own and own"
    assert found.facts["accuracy on given labels of held-out rows"] == "62.5%"


def test_rows_are_put_in_order(model, rows):
    order = np.random.default_rng(0).permutation(60)
    plain = judge_labels(model, rows, GivenLabels(CODES, CLASSES))
    found = judge_labels(
        model, rows, GivenLabels(CODES, CLASSES), order=order, ids=[f"row {n}" for n in range(60)]
    )
    np.testing.assert_array_equal(found.label_quality, plain.label_quality[order])
    np.testing.assert_array_equal(found.suggested_label, plain.suggested_label[order])
    assert found.ids[0] == "row 0"


def test_a_model_at_chance_flags_nothing_and_warns(model, rows):
    at_chance = dataclasses.replace(
        model, validation=Validation(20, 0.3, False, "It is at chance.")
    )
    found = judge_labels(at_chance, rows, GivenLabels(CODES, CLASSES))
    assert not found.trusted
    assert not found.is_label_issue.any()
    assert found.warnings[0] == "It is at chance."


def test_the_rate_is_the_mean_doubt_of_the_rows(model, rows):
    labels = GivenLabels(CODES, CLASSES)
    judged = judge_rows(model.members, rows, torch.from_numpy(CODES))
    judged = dataclasses.replace(judged, rate_range=(0.0, 1.0))
    rate = findings_of(judged, labels, members=2)
    assert rate.noise_rate.overall.estimate == pytest.approx(1 - rate.label_quality.mean())
    assert (rate.noise_rate.overall.low, rate.noise_rate.overall.high) == (0, 1)


def test_one_matrix_has_no_parts_to_show(model, rows):
    alone = member(1)
    matrix = type(alone.part_transition)(alone.part_transition.parts[:1])
    single = dataclasses.replace(alone, feature_network=None, part_transition=matrix)
    found = judge_labels(
        dataclasses.replace(model, members=(single,)), rows, GivenLabels(CODES, CLASSES)
    )
    assert found.parts is None
    np.testing.assert_allclose(found.transition, matrix.parts[0].numpy(), rtol=1e-6)
