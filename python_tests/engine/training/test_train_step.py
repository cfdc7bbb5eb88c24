"""One train step: its batches, its loss and what it changes."""

from types import SimpleNamespace

import pytest
import torch
from random_numbers import new_generator

from ptd_ext.engine.methods.registry import stages_of
from ptd_ext.engine.networks.linear import Linear
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.split import split_data
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.training.train_step import TrainStep, key, order
from ptd_ext.utils.distributed import Ranks

CPU = torch.device("cpu")


@pytest.fixture
def steps():
    rows = torch.randn(23, 4, generator=new_generator(0))
    preprocessing, stored = Preprocessing.fit(rows)
    positions = torch.arange(20), torch.arange(20, 23)
    data = split_data(stored, torch.arange(23) % 3, ("a", "b", "c"), preprocessing, positions)
    settings = Settings(method="CE", network="linear", batch_size=8, lr=0.1, milestones=())
    torch.manual_seed(0)
    network = Linear(3, torch.Size([4]))
    (stage,) = stages_of(settings, data)
    stage.begin(SimpleNamespace(data=data))
    return TrainStep(stage, [network], data, settings, CPU, Ranks())


def test_batches_follow_the_order_and_may_begin_later(steps):
    ids = order(0, 0, 0, 20)
    assert sorted(ids.tolist()) == list(range(20))
    found = list(steps.batches(ids, 0))
    assert [len(batch) for batch, _ in found] == [8, 8, 4]
    assert torch.cat([batch for batch, _ in found]).tolist() == ids.tolist()
    for batch, inputs in found:
        assert torch.equal(inputs, steps.data.train.fetch(batch, CPU))
    later = list(steps.batches(ids, 2))
    assert len(later) == 1
    assert torch.equal(later[0][0], found[2][0])


def test_a_step_goes_down_the_gradient_and_sums_the_loss(steps):
    steps.begin_epoch(0)
    ids = torch.arange(8)
    inputs = steps.data.train.fetch(ids, CPU)
    losses = []
    for number in range(5):
        logits = steps.networks[0](inputs)[1]
        losses.append(torch.nn.functional.cross_entropy(logits, ids % 3).item())
        steps.step(ids, inputs, 0, number)
    assert losses == sorted(losses, reverse=True)
    assert steps.loss.item() == pytest.approx(8 * sum(losses), rel=1e-5)
    steps.check_finite(0)
    steps.begin_epoch(1)
    assert steps.loss.item() == 0


def test_the_first_step_that_diverges_is_named(steps):
    steps.begin_epoch(1)
    ids = torch.arange(8)
    bad = torch.full((8, 4), torch.nan)
    for number in (4, 5):  # an epoch has three steps
        steps.step(ids, bad, 1, number)
    with pytest.raises(ValueError, match="not finite at step 2 of 3 in epoch 2 of stage 'train'"):
        steps.check_finite(1)


def test_the_state_of_the_optimiser_comes_back(steps):
    steps.begin_epoch(0)
    ids = torch.arange(8)
    steps.step(ids, steps.data.train.fetch(ids, CPU), 0, 0)
    state, loss = steps.state_dict(), steps.loss.item()
    momentum = state["optimisers"][0]["state"]
    assert momentum
    steps.loss.zero_()
    steps.load_state_dict({**state, "loss": torch.tensor(loss)})
    assert steps.loss.item() == loss


def test_seeds_of_purposes_are_independent():
    found = {key("order", 0, 0, 0), key("order", 0, 0, 1), key("network", 0, 0, 0), key("order")}
    assert len(found) == 4
    assert all(0 <= seed < 2**56 for seed in found)
    assert not torch.equal(order(0, 0, 0, 50), order(0, 0, 1, 50))
    assert torch.equal(order(1, 0, 0, 50), order(1, 0, 0, 50))
