"""The tests of chance: whether a network or the rows explain labels better than chance."""

import pytest
import torch

from ptd_ext.engine.model.chance import (
    chance_warning,
    labels_follow_rows,
    log_likelihood,
    without_own_row,
)


def test_a_label_that_is_ruled_out_has_a_likelihood():
    """Networks are compared by it, and one infinity would outweigh all other rows."""
    found = log_likelihood(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1]))
    torch.testing.assert_close(found, torch.tensor([1e-30, 1.0]).log())


def test_a_little_above_chance_is_chance():
    """Two standard errors are exceeded by chance in one data set of forty."""
    codes = torch.arange(400) % 2
    no_gain = torch.full((100,), 0.5).log()
    for accuracy, chance in ((0.61, True), (0.64, True), (0.66, False)):
        printed = chance_warning("It", accuracy, codes, codes[:100], no_gain)
        assert (printed is not None) == chance
    spread = torch.tensor([1.0, -1.0]).repeat(50)  # a standard error of 0.1
    for gain, chance in ((0.25, True), (0.35, False)):
        printed = chance_warning("It", 0.5, codes, codes[:100], no_gain + gain + spread)
        assert (printed is not None) == chance


def test_few_rows_of_very_noisy_labels_are_distinguished_from_chance():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(100, 3, generator=generator)
    wrong = torch.rand(100, generator=generator) < 0.3
    labels = (rows[:, 0] > 0) ^ wrong
    assert labels_follow_rows(rows, labels.long())
    assert labels_follow_rows(rows.view(100, 3, 1, 1), labels.long())
    assert not labels_follow_rows(rows[:, 1:], labels.long())
    assert not labels_follow_rows(torch.ones(100, 3), labels.long())
    shuffled = [torch.randperm(100, generator=generator) for _ in range(100)]
    assert sum(labels_follow_rows(rows, labels[order].long()) for order in shuffled) <= 5


def test_a_label_is_not_predicted_by_itself():
    """A model that was fitted to the row would explain any label of as many columns as rows."""
    generator = torch.Generator().manual_seed(0)
    rows, labels = torch.randn(40, 40, generator=generator), torch.arange(40) % 2
    assert not labels_follow_rows(rows, labels)


def test_predictions_without_a_row_are_those_of_a_fit_without_it():
    """The statistic is the mean of leave-one-out predictions, fitted one by one."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(12, 2, generator=generator).double()
    labels = torch.tensor([0, 1] * 6)
    centred = rows - rows.mean(0)
    penalty = 10 * centred.square().sum() / 2
    expected = 0.0
    for row in range(12):
        others = torch.arange(12) != row
        mean, one_hot = centred[others].mean(0), torch.eye(2).double()[labels[others]]
        x = centred[others] - mean
        slopes = torch.linalg.solve(x.T @ x + penalty * torch.eye(2), x.T @ one_hot)
        expected += (one_hot.mean(0) + (centred[row] - mean) @ slopes)[labels[row]].item() / 12
    without = without_own_row(rows)
    predicted = without @ torch.eye(2).double()[labels]
    found = predicted.gather(1, labels[:, None]).mean().item()
    assert found == pytest.approx(expected)
