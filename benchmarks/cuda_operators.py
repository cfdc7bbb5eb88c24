"""The operators that bench_cuda.py times and profile_cuda.py profiles: inputs, peers, bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import peers
import torch
from torch import Tensor

import ptd_ext
from ptd_ext import reference
from ptd_ext.selftest import Case, make_batch
from ptd_ext.simplex import WeightProblem

SLACK = 0.01
STEPS = 10  # of SimplexNMF's weight step
LABEL = 2  # an int64 takes as many bytes as two of the float32 numbers that are counted here


class Operator(NamedTuple):
    """A function of `inputs(n, c, r, device)`, which are differentiated where they ask for it.

    `numbers(n, c, r)` counts the float32 numbers that the forward pass must move, and the backward
    pass: every input read once, every result written once. (None: it has no backward pass.)
    """

    ours: Callable[..., Tensor]
    eager: Callable[..., Tensor]
    inputs: Callable[..., tuple[Tensor | None, ...]]
    numbers: Callable[[int, int, int], tuple[int, int | None]]


def _batch(names: str, slack: float | None = None) -> Callable[..., tuple[Tensor | None, ...]]:
    """Inputs with gradients of the logits and, as in training with revision, of the slack."""

    def make(n: int, c: int, r: int, device: str) -> tuple[Tensor | None, ...]:
        batch = make_batch(Case(n, c, r, slack))
        tensors = {name: None if t is None else t.to(device) for name, t in batch.items()}
        for name in ("logits", "slack"):
            if tensors[name] is not None:
                tensors[name].requires_grad_()
        return tuple(tensors[name] for name in names.split())

    return make


def _normal(shape: Callable[[int, int, int], tuple[int, ...]]) -> Callable[..., tuple[Tensor]]:
    return lambda n, c, r, device: (torch.randn(shape(n, c, r), device=device).requires_grad_(),)


def _weight_step(n: int, c: int, r: int, device: str) -> tuple[Tensor, ...]:
    parts = torch.rand(r, 4 * r, device=device)
    problem = WeightProblem.of((parts @ parts.T)[None])
    linear = torch.rand(n, 4 * r, device=device) @ parts.T
    return (*problem, linear[None], torch.full((1, n, r), 1 / r, device=device))


def _product_posterior(logits: Tensor, weights: Tensor, parts: Tensor) -> Tensor:
    """(h ⊗ g) times the parts as [R·C, C]."""
    pairs = weights[:, :, None] * logits.softmax(-1)[:, None, :]
    return pairs.flatten(1) @ parts.flatten(0, 1)


def _column(n: int, c: int, r: int) -> int:
    """Logits, weights, labels and the columns of the parts that the labels name."""
    return n * (c + r + LABEL) + min(n, c) * r * c


def _revised(n: int, c: int, r: int) -> int:
    """The same with all of the parts, the slack, and row sums [N, C] for the backward pass."""
    return n * (c + r + LABEL) + (r + 1) * c * c + n * c


LABELLED = "logits labels weights parts slack"
OPERATORS = {
    "forward_loss": Operator(
        ptd_ext.forward_loss,
        peers.eager_column,
        _batch(LABELLED),
        lambda n, c, r: (_column(n, c, r), _column(n, c, r) + n * c),
    ),
    "reweight_loss": Operator(
        ptd_ext.reweight_loss,
        reference.reweight_loss,
        _batch(LABELLED),
        lambda n, c, r: (_column(n, c, r), _column(n, c, r) + n * c),
    ),
    "revised forward_loss": Operator(
        ptd_ext.forward_loss,
        peers.eager_column,
        _batch(LABELLED, SLACK),
        lambda n, c, r: (_revised(n, c, r), _revised(n, c, r) + n * c + c * c),
    ),
    "clean_posterior": Operator(
        ptd_ext.clean_posterior,
        reference.clean_posterior,
        _batch(LABELLED),
        lambda n, c, r: (_column(n, c, r) + n * c, _column(n, c, r) + 2 * n * c),
    ),
    "noisy_posterior": Operator(
        ptd_ext.noisy_posterior,
        _product_posterior,
        _batch("logits weights parts"),
        lambda n, c, r: (n * (2 * c + r) + r * c * c, n * (3 * c + r) + r * c * c),
    ),
    "simplex_projection": Operator(
        ptd_ext.simplex_projection,
        reference.simplex_projection,
        _normal(lambda n, c, r: (n, c)),
        lambda n, c, r: (2 * n * c, 3 * n * c),
    ),
    "simplex_weights": Operator(
        lambda *inputs: torch.ops.ptd_ext.simplex_weights(*inputs, STEPS, 0.0),
        lambda *inputs: reference.simplex_weights(*inputs, STEPS, 0.0),
        _weight_step,
        lambda n, c, r: (3 * n * r + r * r + r + 1, None),
    ),
    "project_transition": Operator(
        ptd_ext.project_transition,
        reference.project_transition,
        _normal(lambda n, c, r: (n, c, c)),
        lambda n, c, r: (2 * n * c * c, 3 * n * c * c),
    ),
}


def backward_step(call: Callable[..., Tensor], inputs: tuple[Tensor | None, ...]) -> Callable:
    """The forward and backward pass as a function without arguments."""
    leaves = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
    grad = torch.randn_like(call(*inputs))
    return lambda: torch.autograd.grad(call(*inputs), leaves, grad)
