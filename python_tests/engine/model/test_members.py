"""Networks that judge together: which are taken, and what they say of rows."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

import ptd_ext
from ptd_ext.label_issues.classifier import _chosen
from ptd_ext.label_issues.training.in_memory import Trained, fitting_settings, train_network
from ptd_ext.label_issues.training.members import Member, judge_rows
from ptd_ext.transition.gate import LinearGate


class TwoOutputs(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)

    def forward(self, rows):
        return rows, rows @ self.weight


def member(seed, slack=None):
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    parts = torch.rand(2, 3, 3, **draw) + 3 * torch.eye(3)
    parts /= parts.sum(-1, keepdim=True)
    gate = LinearGate(torch.randn(2, 4, **draw), torch.randn(2, **draw), torch.zeros(4).double())
    network = TwoOutputs(torch.randn(4, 3, **draw))
    return Member("own", network, network, ptd_ext.PartTransition(parts, slack=slack, gate=gate))


def trained(likelihood):
    return Trained(member(0), torch.as_tensor(likelihood), 0.5, {})


@pytest.mark.parametrize(
    ("gain", "expected"),
    [(-0.01, [0]), (0.05, [1, 0]), (0.5, [1])],
    ids=["worse", "a little better", "much better"],
)
def test_a_larger_network_joins_or_replaces_the_smaller(gain, expected):
    first = torch.randn(50, generator=torch.Generator().manual_seed(0)).double()
    found = [trained(first), trained(first + gain)]
    assert _chosen(found) == [found[position] for position in expected]


def test_a_gain_that_may_be_chance_replaces_nothing():
    gain = torch.tensor([8.0] + [-0.5] * 9)  # a mean of 0.35 and a standard error of 0.81
    found = [trained(torch.zeros(10)), trained(gain)]
    assert _chosen(found) == [found[1], found[0]]


def test_members_say_the_mean():
    members, inputs = [member(1), member(2)], torch.randn(7, 4, dtype=torch.float64)
    codes = torch.tensor([0, 1, 2, 0, 1, 2, 2])
    said = judge_rows(members, inputs, codes)
    posterior, joint = torch.zeros(7, 3).double(), torch.zeros(3, 3).double()
    for each in members:
        logits, weights = each.outputs(inputs)
        matrix, clean = each.transition.matrix(weights=weights), logits.softmax(1)
        right = clean * matrix[torch.arange(7), :, codes]
        posterior += right / right.sum(1, keepdim=True) / 2
        joint += torch.einsum("nc,nck->ck", clean, matrix) / 7 / 2
    torch.testing.assert_close(said.posterior, posterior)
    torch.testing.assert_close(said.joint, joint)
    assert said.joint.sum().item() == pytest.approx(1)
    mean = torch.einsum("r,rck->ck", said.part_shares, said.parts)
    torch.testing.assert_close(said.transition, mean)


def test_joint_with_slack_has_the_shares_of_the_classes():
    slack = torch.full((3, 3), 0.05, dtype=torch.float64)
    revised, inputs = member(3, slack), torch.randn(6, 4, dtype=torch.float64)
    logits, weights = revised.outputs(inputs)
    joint = revised.joint(logits, weights)
    torch.testing.assert_close(joint.sum(1), logits.softmax(1).mean(0))
    assert (joint - member(3).joint(logits, weights)).abs().max() > 1e-3


def test_weight_decay_is_larger_for_few_rows_and_small_networks():
    cases = ((40, "linear"), (40, "mlp"), (800, "mlp"), (10**6, "mlp"), (40, "lenet5"))
    common = {"method": "PTD-L", "parts": 2, "epochs": 1, "seed": 0}
    decays = [fitting_settings(rows, network=name, **common).weight_decay for rows, name in cases]
    assert decays == [0.1, 0.03, 0.01, 1e-4, 1e-4]


def test_two_networks_are_saved_and_loaded(tmp_path, monkeypatch):
    rows, y = load_wine(return_X_y=True)
    given = ptd_ext.symmetric_noise(y, 0.2, seed=0).noisy_labels.numpy()
    monkeypatch.setattr("ptd_ext.label_issues.classifier._chosen", list)  # both
    model = ptd_ext.PTDClassifier(max_epochs=3, random_state=0).fit(rows, given)
    assert model.network_name_ == "linear and mlp"
    model.save(tmp_path / "model.safetensors")
    other = ptd_ext.PTDClassifier.load(tmp_path / "model.safetensors")
    assert other.network_name_ == "linear and mlp"
    np.testing.assert_array_equal(other.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_allclose(other.transition(rows).sum(2), 1, atol=1e-6)
    np.testing.assert_allclose(other.transition(rows), model.transition(rows), rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(rows).sum(1), 1)


def test_accuracy_is_not_the_best_of_many_epochs():
    """That would be above chance by chance."""
    generator = torch.Generator().manual_seed(0)
    rows, codes = torch.randn(60, 3, generator=generator), torch.arange(60) % 2
    split = torch.arange(40), torch.arange(40, 60)
    options = {"method": "PTD-L", "network": "linear", "parts": 2, "epochs": 6, "seed": 0}
    settings = fitting_settings(40, **options)
    state = torch.get_rng_state()
    found = train_network(rows, codes, ["a", "b"], split, settings, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), state), "the caller's random numbers go on"
    warm_up = found.curves["accuracy on given labels of held-out rows, per cent"][:6]
    assert round(100 * found.warm_up_accuracy) in [round(share) for share in warm_up]
    assert 100 * found.warm_up_accuracy < max(warm_up) - 4
