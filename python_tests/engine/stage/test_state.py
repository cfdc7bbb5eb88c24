"""State of stages goes into checkpoints as dictionaries of tensors and numbers, and comes back."""

from types import SimpleNamespace

import torch

from ptd_ext.engine.stage.state import (
    BestModel,
    SampleTransitions,
    Scores,
    StageOutputs,
    to_state,
)

SCORES = Scores(3, 0.5, 75.0, -0.25, {"test_accuracy": 80.0})


def estimate(**more):
    return SampleTransitions(torch.rand(5, 2), torch.rand(3, 2), torch.rand(2, 4, 4), **more)


def restored(value, folder):
    """What `torch.load` makes of it without running code."""
    torch.save(to_state(value), folder / "state.pt")
    return torch.load(folder / "state.pt", weights_only=True)


def assert_same(found, expected):
    assert vars(found).keys() == vars(expected).keys()
    for name, value in vars(expected).items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(getattr(found, name), value), name
        elif isinstance(value, SampleTransitions):
            assert_same(getattr(found, name), value)
        else:
            assert getattr(found, name) == value, name


def test_outputs_come_back(tmp_path):
    gate = {"gate_weight": torch.rand(2, 6), "gate_bias": torch.rand(2)}
    outputs = StageOutputs(
        pred_probs=torch.rand(5, 4),
        estimate=estimate(**gate, gate_centre=torch.rand(6)),
        warm_up_accuracy=torch.tensor(0.5),
    )
    state = restored(outputs, tmp_path)
    assert set(state) == {"pred_probs", "estimate", "warm_up_accuracy"}
    assert_same(StageOutputs.from_state(state), outputs)
    assert_same(StageOutputs.from_state(restored(StageOutputs(), tmp_path)), StageOutputs())


def test_the_network_of_features_comes_back(tmp_path):
    outputs = StageOutputs(feature_network={"weight": torch.ones(2)})
    found = StageOutputs.from_state(restored(outputs, tmp_path))
    assert found.feature_network["weight"].tolist() == [1, 1]


def test_the_best_model_comes_back(tmp_path):
    best = BestModel(SCORES, {"fc.weight": torch.ones(2)}, {"slack": torch.zeros(4, 4)})
    found = BestModel.from_state(restored(best, tmp_path))
    assert found.scores == SCORES
    assert found.network["fc.weight"].tolist() == [1, 1]
    assert found.stage_parameters["slack"].shape == (4, 4)


def test_scores_have_their_names_in_the_log():
    assert SCORES.figures() == {
        "validation_accuracy": 75.0,
        "validation_likelihood": -0.25,
        "test_accuracy": 80.0,
    }


def test_a_gate_needs_all_its_tensors():
    weight, bias = torch.rand(2, 6), torch.rand(2)
    assert estimate(gate_weight=weight, gate_bias=bias).gate is None
    gate = estimate(gate_weight=weight, gate_bias=bias, gate_centre=torch.rand(6)).gate
    assert gate.weight is weight


def test_one_matrix_is_one_part_of_all_samples():
    data = SimpleNamespace(train_labels=torch.arange(5), validation_labels=torch.arange(2))
    found = SampleTransitions.one_matrix(torch.eye(3), torch.ones(3) / 3, data)
    assert found.weights.tolist() == [[1]] * 5
    assert found.validation_weights.tolist() == [[1]] * 2
    assert found.parts.shape == (1, 3, 3)
    assert len(list(found.tensors())) == 4
