"""Predictions for a whole split, in batches."""

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.stage import evaluate
from ptd_ext.engine.stage.evaluate import accuracy, predict, predict_all
from ptd_ext.utils.distributed import Ranks

CPU = torch.device("cpu")


class Normalising(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.fc = torch.nn.Linear(4, 3)
        self.sizes = []

    def forward(self, rows):
        self.sizes.append(len(rows))
        found = self.norm(rows)
        return found, self.fc(found)


def inputs_of(count):
    rows = torch.randn(count, 4, generator=new_generator(0))
    preprocessing, stored = Preprocessing.fit(rows)
    return Inputs(stored, None, preprocessing)


@pytest.mark.parametrize("training", [True, False])
def test_batches_of_a_split_are_evaluated_not_trained_on(monkeypatch, training):
    monkeypatch.setattr(evaluate, "_ROWS", 7)
    network, inputs = Normalising().train(training), inputs_of(20)
    before = network.norm.running_mean.clone()
    found = predict(network, inputs, CPU, Ranks(), features=True)
    assert network.sizes == [7, 7, 6]
    assert network.training is training
    assert torch.equal(network.norm.running_mean, before)
    features, logits = network.eval()(inputs.fetch(torch.arange(20), CPU))
    torch.testing.assert_close(found.features, features)
    torch.testing.assert_close(found.logits, logits)
    assert not found.logits.requires_grad


def test_features_are_kept_only_on_request():
    found = predict(Normalising(), inputs_of(5), CPU, Ranks())
    assert found.logits.shape == (5, 3)
    assert found.features.shape == (5, 0)


def test_rows_take_the_type_of_the_network():
    assert predict(Normalising().double(), inputs_of(5), CPU, Ranks()).logits.dtype == torch.float64


def test_large_samples_come_in_small_batches(monkeypatch):
    monkeypatch.setattr(evaluate, "_NUMBERS", 8)
    network = Normalising().eval()
    predict(network, inputs_of(5), CPU, Ranks())
    assert network.sizes == [2, 2, 1]


def test_accuracy_is_in_per_cent():
    assert accuracy(torch.eye(4), torch.tensor([0, 1, 2, 0])) == 75


def test_several_networks_share_each_batch(monkeypatch):
    monkeypatch.setattr(evaluate, "_ROWS", 7)
    inputs, fetched = inputs_of(20), []
    fetch = inputs.fetch
    monkeypatch.setattr(
        inputs, "fetch", lambda ids, device: fetched.append(ids) or fetch(ids, device)
    )
    first, second = Normalising().eval(), Normalising().double()
    one, other = predict_all([(first, False), (second, True)], inputs, CPU, Ranks())
    assert torch.cat(fetched).tolist() == list(range(20))
    assert (first.training, second.training) == (False, True)
    assert torch.equal(one.logits, predict(first, inputs, CPU, Ranks()).logits)
    assert one.features.shape == (20, 0)
    alone = predict(second, inputs, CPU, Ranks(), features=True)
    assert torch.equal(other.features, alone.features)
    assert torch.equal(other.logits, alone.logits)
