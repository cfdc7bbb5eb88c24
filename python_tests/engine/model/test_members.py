"""Networks with their T(x) that judge rows together."""

import pytest
import torch
from random_numbers import new_generator

import ptd_ext
from ptd_ext.engine.model.members import Member, judge_rows
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.transition.gate import LinearGate


class TwoOutputs(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)

    def forward(self, rows):
        return rows, rows @ self.weight


def member(seed, slack=None):
    generator = new_generator(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    parts = torch.rand(2, 3, 3, **draw) + 3 * torch.eye(3)
    parts /= parts.sum(-1, keepdim=True)
    gate = LinearGate(torch.randn(2, 4, **draw), torch.randn(2, **draw), torch.zeros(4).double())
    network = TwoOutputs(torch.randn(4, 3, **draw))
    return Member("own", network, network, ptd_ext.PartTransition(parts, slack=slack, gate=gate))


def rows_of(count):
    rows = torch.randn(count, 4, generator=new_generator(9))
    preprocessing, stored = Preprocessing.fit(rows)
    return Inputs(stored, None, preprocessing)


def test_members_judge_by_the_mean():
    members, inputs = [member(1), member(2)], rows_of(7)
    codes = torch.tensor([0, 1, 2, 0, 1, 2, 2])
    found = judge_rows(members, [inputs], codes)
    posterior, joint = torch.zeros(7, 3).double(), torch.zeros(3, 3).double()
    for each in members:
        logits, weights = each.logits(inputs), each.weights(inputs)
        matrix, clean = each.part_transition.transition(weights=weights), logits.softmax(1)
        right = clean * matrix[torch.arange(7), :, codes]
        posterior += right / right.sum(1, keepdim=True) / 2
        joint += torch.einsum("nc,nck->ck", clean, matrix) / 7 / 2
    torch.testing.assert_close(found.posterior, posterior)
    torch.testing.assert_close(found.joint, joint)
    assert found.joint.sum().item() == pytest.approx(1)
    mean = torch.einsum("r,rck->ck", found.part_shares, found.parts)
    torch.testing.assert_close(found.transition, mean)


def test_rows_in_pieces_are_judged_as_together():
    members, whole, codes = [member(1)], rows_of(7), torch.arange(7) % 3
    pieces = [Inputs(whole.stored[part], None, whole.preprocessing) for part in ([0, 1], [2, 3, 4])]
    pieces.append(Inputs(whole.stored, torch.tensor([5, 6]), whole.preprocessing))
    one, other = judge_rows(members, [whole], codes), judge_rows(members, pieces, codes)
    for name, tensor in vars(one).items():
        torch.testing.assert_close(getattr(other, name), tensor)


def test_other_clean_probs_replace_the_networks():
    members, inputs, codes = [member(1), member(2)], rows_of(6), torch.arange(6) % 3
    sure = torch.eye(3)[[1, 1, 2, 2, 0, 0]]
    found = judge_rows(members, [inputs], codes, clean_probs=sure)
    torch.testing.assert_close(found.posterior, sure.double())
    torch.testing.assert_close(found.joint.sum(1), torch.full((3,), 1 / 3).double())


def test_joint_with_slack_has_the_shares_of_the_classes():
    slack = torch.full((3, 3), 0.05, dtype=torch.float64)
    inputs, codes = rows_of(6), torch.arange(6) % 3
    revised = member(3, slack)
    joint = judge_rows([revised], [inputs], codes).joint
    torch.testing.assert_close(joint.sum(1), revised.logits(inputs).softmax(1).mean(0))
    assert (joint - judge_rows([member(3)], [inputs], codes).joint).abs().max() > 1e-3


def test_a_copy_has_its_own_numbers():
    found = member(0)
    single = found.to(torch.float32)
    assert single.part_transition.parts.dtype == single.network.weight.dtype == torch.float32
    assert found.part_transition.parts.dtype == found.network.weight.dtype == torch.float64
    assert single.logits(rows_of(3)).dtype == torch.float32


def test_one_matrix_has_one_weight_and_no_matrix_judges_nothing():
    network = TwoOutputs(torch.eye(4, 3))
    one = Member("own", network, None, ptd_ext.PartTransition(torch.eye(3)[None]))
    assert one.weights(rows_of(5)).tolist() == [[1]] * 5
    with pytest.raises(ValueError, match=r"estimates no T\(x\), so that labels cannot be judged"):
        judge_rows([Member("own", network)], [rows_of(3)], torch.zeros(3, dtype=torch.int64))
    assert torch.equal(Member("own", network).logits(rows_of(3)), one.logits(rows_of(3)))


def test_rows_that_the_network_cannot_compute_with_are_named():
    """Finite numbers, of which it makes NaN: the first class would be predicted."""
    inputs = rows_of(5)
    inputs.stored[3] = 3e38
    overflowing = member(1).to(torch.float32)
    overflowing.network.weight.mul_(1e3)
    overflowing.part_transition.gate.weight.mul_(1e3)
    for compute in (overflowing.logits, overflowing.weights):
        with pytest.raises(ValueError, match="those of row 3 exceed what the network can compute"):
            compute(inputs)


def test_a_judgement_fetches_each_row_once(monkeypatch):
    inputs, fetched = rows_of(6), []
    fetch = inputs.fetch
    monkeypatch.setattr(
        inputs, "fetch", lambda ids, device: fetched.append(ids) or fetch(ids, device)
    )
    judge_rows([member(1)], [inputs], torch.arange(6) % 3)
    assert torch.cat(fetched).tolist() == list(range(6))
