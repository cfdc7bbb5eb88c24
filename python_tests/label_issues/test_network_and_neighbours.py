"""Networks judge together with the neighbours of the rows."""

import dataclasses

import pytest
import torch

from ptd_ext.engine.model.members import Judgement
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.label_issues import network_and_neighbours
from ptd_ext.label_issues.network_and_neighbours import with_neighbours

ROWS, HELD = 400, 100
T = torch.full((2, 2), 0.2).fill_diagonal_(0.8).double()


@pytest.fixture(scope="module")
def data():
    """Rows in two pieces, true classes, given labels of which a fifth is wrong."""
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(ROWS) % 2
    stored = torch.randn(ROWS, 4, generator=generator)
    stored[:, 0] += 6.0 * true - 3
    given = torch.where(torch.rand(ROWS, generator=generator) < 0.2, 1 - true, true)
    preprocessing = Preprocessing.fit(stored.numpy())[0]
    pieces = stored[:-HELD], stored[-HELD:]
    return [Inputs(each, None, preprocessing) for each in pieces], true, given


def judged(clean, given):
    """The judgement of a network that predicts `clean`, [N, C]."""
    explained = clean @ T
    posterior = clean * T.T[given]
    return Judgement(
        posterior / posterior.sum(1, keepdim=True),
        torch.eye(2) / 2,
        T,
        T[None],
        torch.ones(1),
        explained.gather(1, given[:, None])[:, 0],
        clean,
    )


def test_neighbours_correct_a_network_that_memorised_labels(data):
    rows, true, given = data
    clean = 0.98 * torch.eye(2)[given].double() + 0.01
    clean[-HELD:] = 0.7 * torch.eye(2)[true[-HELD:]] + 0.15  # it is unsure about new rows
    network = judged(clean, given)
    found, facts = with_neighbours(network, rows, given)
    assert facts["judged by"] == "networks and nearest neighbours"
    wrong = true != given
    before, quality = (each.posterior.gather(1, given[:, None])[:, 0] for each in (network, found))
    assert before[:-HELD][wrong[:-HELD]].mean() > 0.7
    assert quality[wrong].mean() < before[wrong].mean() - 0.1
    assert quality[~wrong].mean() > 0.9
    assert found.rate_range[0] < wrong.double().mean() < found.rate_range[1]


def test_neighbours_that_explain_labels_worse_take_no_part(data):
    rows, true, given = data
    clean = 0.98 * torch.eye(2)[true].double() + 0.01
    shuffled = [
        Inputs(torch.randn(len(each), 4, generator=torch.Generator().manual_seed(1)), None,
               each.preprocessing)
        for each in rows
    ]  # fmt: skip
    network = judged(clean, given)
    found, facts = with_neighbours(network, shuffled, given)
    assert facts["judged by"] == "networks"
    torch.testing.assert_close(found.posterior, network.posterior)
    assert found.rate_range[0] < (true != given).double().mean() < found.rate_range[1]


def test_too_many_rows_are_not_searched(data, monkeypatch):
    rows, true, given = data
    monkeypatch.setattr(network_and_neighbours, "_MAX_PRODUCTS", ROWS**2)
    clean = 0.98 * torch.eye(2)[true].double() + 0.01
    assert with_neighbours(judged(clean, given), rows, given)[1] == {"judged by": "networks"}


def test_few_held_out_rows_leave_the_judgement_as_it_is(data):
    rows, true, given = data
    network = judged(torch.eye(2)[true].double(), given)
    assert with_neighbours(network, rows[:1], given[:-HELD]) == (network, {})
    unknown = dataclasses.replace(network, explained=None)
    assert with_neighbours(unknown, rows, given) == (unknown, {})
