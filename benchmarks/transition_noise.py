"""Kinds of label noise for the comparison of estimators, each with its true T(x).

A kind is a function of (inputs, seed). It returns a function from labels [N] to rows [N, C], where
row n is row labels[n] of T(xₙ). Given the clean labels, that function returns the distributions to
draw noisy labels from; given each class in turn, all of T(x), which the oracle trains through.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import ptd_ext

Rows = Callable[[Tensor], Tensor]
RATE_STD = 0.1  # standard deviation of the noise rate over samples, as in Algorithm 2


def instance(x: Tensor, rate: float, classes: int, seed: int) -> Rows:
    """Algorithm 2 of the paper, over the raw inputs."""

    def rows(labels: Tensor) -> Tensor:
        return ptd_ext.instance_dependent_noise(
            x.flatten(1), labels, rate, random_state=seed, n_classes=classes
        ).rows

    return rows


def symmetric(x: Tensor, rate: float, classes: int, seed: int) -> Rows:
    """Wrong labels are any other class."""
    return _one_matrix(torch.full((classes, classes), 1 / (classes - 1)), rate)


def pairwise(x: Tensor, rate: float, classes: int, seed: int) -> Rows:
    """Wrong labels are the next class."""
    return _one_matrix(torch.eye(classes).roll(1, 1), rate)


def random_classes(x: Tensor, rate: float, classes: int, seed: int) -> Rows:
    """One matrix with a random off-diagonal that has few large entries."""
    generator = torch.Generator().manual_seed(seed)
    return _one_matrix(_random_shape(classes, generator), rate)


def tanh_network(x: Tensor, rate: float, classes: int, seed: int) -> Rows:
    """Off-diagonals by a random network with a hidden layer of 64 tanh: nonlinear in x."""
    generator = torch.Generator().manual_seed(seed)
    x = _standardised(x)
    first = torch.randn(x.shape[1], 64, generator=generator) * 3 / x.shape[1] ** 0.5
    second = torch.randn(classes, 64, classes, generator=generator) * 3 / 8
    hidden = (x @ first).tanh()
    rates = _rates(len(x), rate, generator)

    def rows(labels: Tensor) -> Tensor:
        found = torch.zeros(len(x), classes)
        for label in labels.unique().tolist():
            mine = labels == label
            logits = hidden[mine] @ second[label]
            logits[:, label] = -torch.inf
            found[mine] = rates[mine, None] * logits.softmax(1)
            found[mine, label] = 1 - rates[mine]
        return found

    return rows


def clusters(x: Tensor, rate: float, classes: int, seed: int) -> Rows:
    """Ten regions around random samples, each with a matrix of its own."""
    generator = torch.Generator().manual_seed(seed)
    x = _standardised(x)
    centres = x[torch.randperm(len(x), generator=generator)[:10]]
    for _ in range(10):
        region = torch.cdist(x, centres).argmin(1)
        centres = torch.stack(
            [x[region == c].mean(0) if (region == c).any() else centres[c] for c in range(10)]
        )
    shapes = torch.stack([_random_shape(classes, generator) for _ in range(10)])
    matrices = torch.stack([_with_rate(shape, rate) for shape in shapes])
    return lambda labels: matrices[region, labels]


def draw(rows: Tensor, seed: int) -> Tensor:
    """Draw a label from every row."""
    generator = torch.Generator().manual_seed(seed + 7_000_000)
    return torch.multinomial(rows, 1, generator=generator)[:, 0]


def true_columns(rows: Rows, noisy: Tensor, classes: int) -> Tensor:
    """Column ȳ of every sample's true T(x), [N, C]: all that the forward loss needs of it."""
    columns = [
        rows(torch.full_like(noisy, label)).gather(1, noisy[:, None]) for label in range(classes)
    ]
    return torch.cat(columns, 1)


def _one_matrix(shape: Tensor, rate: float) -> Rows:
    matrix = _with_rate(shape, rate)
    return lambda labels: matrix[labels]


def _with_rate(shape: Tensor, rate: float) -> Tensor:
    wrong = shape.clone().fill_diagonal_(0.0)
    wrong = rate * wrong / wrong.sum(1, keepdim=True)
    return wrong + torch.diag(1 - wrong.sum(1))


def _random_shape(classes: int, generator: torch.Generator) -> Tensor:
    """Off-diagonals as uneven as Dirichlet(½): squares of normal numbers."""
    return torch.randn(classes, classes, generator=generator).square()


def _rates(samples: int, rate: float, generator: torch.Generator) -> Tensor:
    return (rate + RATE_STD * torch.randn(samples, generator=generator)).clamp(0, 1)


def _standardised(x: Tensor) -> Tensor:
    x = x.flatten(1).float()
    x = x - x.mean(0)
    return x / x.std()


KINDS = {
    "instance": instance,
    "symmetric": symmetric,
    "pairwise": pairwise,
    "random_classes": random_classes,
    "tanh_network": tanh_network,
    "clusters": clusters,
}
