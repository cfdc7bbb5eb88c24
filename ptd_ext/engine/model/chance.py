"""Tests that a model is better than chance; otherwise it cannot judge single labels."""

from __future__ import annotations

import torch
from torch import Tensor

CLEARLY = 2.0  # standard errors by which one thing must be better than another
_ABOVE_CHANCE = 3.0  # those by which a model must be: by chance it is in one of 700 data sets
FEW_ROWS = 2000  # with more, held-out rows are enough for the test
_PERMUTATIONS = 99  # the best of all by chance: one time in a hundred
_SMALLEST = 1e-30  # replaces zero in divisions and logarithms


def chance_warning(
    model: str, accuracy: float, codes: Tensor, held_out: Tensor, likelihood: Tensor
) -> str | None:
    """A warning if a model hardly beats chance, None if it clearly does.

    It has to predict more labels than the most frequent one would, or to explain them better than
    the shares of the classes do: where one class has almost all labels, no model predicts more.

    Args:
        model: the name of the model in the warning.
        accuracy: the share of given labels that it predicts, of rows it was not trained on.
        codes: class indices of all given labels, [N].
        held_out: class indices of the given labels of the rows it was not trained on, [M].
        likelihood: its log-likelihood of each of these labels, [M].
    """
    frequent, rows = _most_frequent(codes), len(held_out)
    if _above(accuracy, frequent, rows, _ABOVE_CHANCE):
        return None
    shares = torch.bincount(codes).double() / len(codes)
    gain = likelihood.double() - shares.log()[held_out]
    if gain.mean() > _ABOVE_CHANCE * gain.std(correction=0) / rows**0.5:
        return None
    return (
        f"{model} predicts {accuracy:.1%} of the given labels of {rows:,} rows it was not trained "
        f"on; always naming the most frequent one would predict {frequent:.1%}. Nothing is "
        "flagged, because a model that is no better than chance cannot judge single labels. Try "
        "better features, more rows or another model."
    )


def log_likelihood(pred_probs: Tensor, codes: Tensor) -> Tensor:
    """The logarithm of the probability of each label, finite also where it is ruled out, [M].

    Args:
        pred_probs: P(given label | x), [M, C].
        codes: class indices of the given labels, [M].
    """
    return pred_probs.gather(1, codes[:, None])[:, 0].clamp(min=_SMALLEST).log()


def beats_chance_on_few_rows(inputs: Tensor, codes: Tensor, predicted: Tensor) -> bool:
    """Test that a model of few rows is better than chance, though held-out rows do not show it.

    The labels must depend on the rows, and the model must have learned them: on all rows, most of
    which it was trained on, it must clearly beat the most frequent label.

    Args:
        inputs: encoded rows, [N, …].
        codes: class indices of the given labels, [N].
        predicted: class indices that the model predicts, [N].
    """
    accuracy = (predicted == codes).double().mean().item()
    learned = _above(accuracy, _most_frequent(codes), len(codes), CLEARLY)
    return learned and labels_follow_rows(inputs, codes)


def _most_frequent(codes: Tensor) -> float:
    return torch.bincount(codes).max().item() / len(codes)


def _above(accuracy: float, frequent: float, rows: int, errors: float) -> bool:
    return accuracy > frequent + errors * (frequent * (1 - frequent) / rows) ** 0.5


@torch.no_grad()
def labels_follow_rows(inputs: Tensor, codes: Tensor) -> bool:
    """Test that a linear model predicts left-out labels better than shuffled ones.

    With few rows, those held out are too few to show that a model of very noisy labels is better
    than chance; this test uses all rows. The statistic is the mean over the rows of what a ridge
    regression of one-hot labels, fitted to all other rows, predicts at the row's own label. It has
    to be larger than for every one of 99 permutations of the labels.

    Args:
        inputs: encoded rows, [N, …].
        codes: class indices of the given labels, [N].
    """
    if not 2 < len(codes) <= FEW_ROWS:
        return False
    smoother = without_own_row(inputs.flatten(1))

    def mean_prediction(labels: Tensor) -> float:
        predicted = smoother @ torch.nn.functional.one_hot(labels).double()
        return predicted.gather(1, labels[:, None]).mean().item()

    found, generator = mean_prediction(codes), torch.Generator().manual_seed(0)
    orders = (torch.randperm(len(codes), generator=generator) for _ in range(_PERMUTATIONS))
    return all(found > mean_prediction(codes[order]) for order in orders)


def without_own_row(rows: Tensor) -> Tensor:
    """The matrix that takes labels Y to the prediction for each row by the others, [N, N].

    A ridge regression predicts HY, and with row i left out (HY − hᵢᵢY)ᵢ / (1 − hᵢᵢ).
    """
    rows = rows - rows.mean(0)
    # Directions of less than ten times the mean variance hardly count: with few rows they mislead.
    penalty = 10 * rows.double().square().sum() / rows.shape[1]
    gram = (rows @ rows.T).double()
    ridge = gram + penalty.clamp(min=_SMALLEST) * torch.eye(len(rows), dtype=gram.dtype)
    hat = torch.linalg.solve(ridge, gram) + 1 / len(rows)
    own = hat.diagonal().clone()
    return hat.fill_diagonal_(0.0) / (1 - own)[:, None]
