"""The two steps, and the sums that they share."""

import pytest
import torch
from nmf.test_estimator import mixtures, squared

from ptd_ext import SimplexNMF
from ptd_ext.nmf._data import open_rows
from ptd_ext.nmf._updates import Effort, Sums, squared_error, weight_sweep


def test_an_unused_part_stays_where_it_is():
    sums = Sums(torch.diag(torch.tensor([1.0, 0.0]))[None].double(), torch.ones(1, 2, 3).double())
    sums.hx[:, 1] = 0
    parts = torch.full((1, 2, 3), 5.0, dtype=torch.float64)
    assert torch.equal(sums.best_parts(parts)[0, 1], parts[0, 1])


def test_sums_of_a_sweep_give_the_error():
    x, basis = mixtures(noise=0.3)
    rows, parts = open_rows(x, 64), basis[None]
    weights = parts.new_full((1, len(x), 4), 0.25)
    centre = x.mean(0)
    sums, spread = weight_sweep(rows, parts, weights, Effort(50, 0.0), centre)
    torch.testing.assert_close(spread, (x - centre).square().sum())
    h = weights[0]
    torch.testing.assert_close(sums.hh[0], h.T @ h)
    torch.testing.assert_close(sums.hx[0], h.T @ x)
    expected = squared(x, h, basis)
    assert sums.error(parts, centre, spread).item() == pytest.approx(expected)
    assert sums.error(sums.best_parts(parts), centre, spread).item() <= expected


def test_squared_error_has_no_cancellation():
    x = 1e3 + 1e-2 * mixtures()[0]
    model = SimplexNMF(4, random_state=0)
    weights = model.fit_transform(x.float())
    rows = open_rows(x.float())
    error = squared_error(rows, model.components_[None], weights[None]).item()
    truth = squared(x.float().double(), weights.double(), model.components_.double())
    assert error == pytest.approx(truth, rel=0.2)
