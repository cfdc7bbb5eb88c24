"""P(given label | x), one or several, combined or read in batches."""

import numpy as np
import pytest
import torch
from random_numbers import new_generator

import ptd_ext
from ptd_ext.transition.pred_probs import PredProbs, combine


def posterior(seed=0):
    return (2 * torch.randn(1000, 4, generator=new_generator(seed))).softmax(1)


POSTERIOR = posterior()


@pytest.mark.parametrize("hold", [lambda p: p, lambda p: lambda: p.split(70), torch.Tensor.numpy])
def test_all_kinds_read_the_same(hold):
    read = PredProbs(hold(POSTERIOR))
    assert (len(read), read.n_classes) == (1000, 4)
    samples = torch.tensor([999, 3, 3, 500])
    torch.testing.assert_close(read.take(samples), POSTERIOR[samples].double())
    columns = torch.cat([block for _, block in read.columns()], 1)
    assert torch.equal(columns, POSTERIOR.T)
    torch.testing.assert_close(read.mean(), POSTERIOR.mean(0))


def test_mean_of_very_many_samples_is_that_of_some(monkeypatch):
    monkeypatch.setattr("ptd_ext.transition.pred_probs._MEAN_NUMBERS", 400)
    torch.testing.assert_close(PredProbs(POSTERIOR).mean(), POSTERIOR[::10].mean(0))


def test_error_messages_name_the_argument():
    with pytest.raises(ValueError, match="clean_probs must be probabilities"):
        combine(2 * POSTERIOR, None, "clean_probs")
    folds = [([0], torch.ones(1, 2) / 2), ([1], torch.ones(1, 3) / 3)]
    with pytest.raises(ValueError, match=r"clean_probs of all folds must have the same classes"):
        combine(folds, None, "clean_probs")


def test_averaged_over_epochs():
    epochs = [posterior(seed=seed) for seed in range(3)]
    mean = torch.stack(epochs).double().mean(0)
    expected = ptd_ext.find_anchors(mean)
    for given in (epochs, tuple(epochs), torch.stack(epochs), np.stack(epochs)):
        found = ptd_ext.find_anchors(given)
        assert all(map(torch.equal, found.ids, expected.ids))
    combined, ids = ptd_ext.transition.combine_pred_probs(epochs)
    torch.testing.assert_close(combined, mean)
    assert torch.equal(ids, torch.arange(1000))
    torch.testing.assert_close(epochs[0], posterior(seed=0))  # inputs are not written


def test_cross_fitted():
    """Every sample scored by the network of another fold; folds come in any order."""
    order = torch.randperm(1000, generator=new_generator(1))
    folds = [(part + 50, POSTERIOR[part]) for part in order.split(300)]
    combined, ids = ptd_ext.transition.combine_pred_probs(folds)
    assert torch.equal(ids, torch.arange(1000) + 50)
    torch.testing.assert_close(combined, POSTERIOR.double())
    expected = ptd_ext.find_anchors(POSTERIOR, ids=torch.arange(1000) + 50)
    assert all(map(torch.equal, ptd_ext.find_anchors(folds).ids, expected.ids))
    # ids choose and order; a sample scored twice gets the mean.
    twice = [*folds, (torch.tensor([51]), torch.tensor([[1.0, 0, 0, 0]]))]
    chosen, ids = ptd_ext.transition.combine_pred_probs(twice, ids=[60, 51])
    assert ids.tolist() == [60, 51]
    torch.testing.assert_close(chosen[0], POSTERIOR[10].double())
    half = (POSTERIOR[1].double() + torch.tensor([1.0, 0, 0, 0])) / 2
    torch.testing.assert_close(chosen[1], half)
