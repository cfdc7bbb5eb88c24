"""The operators of bench_cuda.py and profile_cuda.py: inputs, peers and bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import peers
import torch
from torch import Tensor

import ptd_ext
from ptd_ext.cli.selftest import Case, make_batch
from ptd_ext.ops import reference
from ptd_ext.ops.simplex import WeightProblem

SLACK = 0.01
STEPS = 10  # steps per weight update of SimplexNMF

Inputs = tuple[Tensor | None, ...]


class Operator(NamedTuple):
    """A function of `inputs(n, c, r, device)`, differentiated by inputs that require gradients."""

    ours: Callable[..., Tensor]
    eager: Callable[..., Tensor]
    inputs: Callable[[int, int, int, str], Inputs]


def _batch(slack: float | None, *names: str) -> Callable[..., Inputs]:
    """Inputs with gradients of the logits and, as in training with revision, of the slack."""

    def make(n: int, c: int, r: int, device: str) -> Inputs:
        batch = make_batch(Case(n, c, r, slack))
        tensors = {name: None if t is None else t.to(device) for name, t in batch.items()}
        for name in ("logits", "slack"):
            if tensors[name] is not None:
                tensors[name].requires_grad_()
        return tuple(tensors[name] for name in names)

    return make


def _rows(n: int, c: int, r: int, device: str) -> Inputs:
    return (torch.randn(n, c, device=device).requires_grad_(),)


def _matrices(n: int, c: int, r: int, device: str) -> Inputs:
    return (torch.randn(n, c, c, device=device).requires_grad_(),)


def _weight_step(n: int, c: int, r: int, device: str) -> Inputs:
    parts = torch.rand(r, 4 * r, device=device)
    problem = WeightProblem.of((parts @ parts.T)[None])
    linear = torch.rand(n, 4 * r, device=device) @ parts.T
    return (*problem, linear[None], torch.full((1, n, r), 1 / r, device=device))


def _our_weights(*inputs: Tensor) -> Tensor:
    return torch.ops.ptd_ext.simplex_weights(*inputs, STEPS, 0.0)


def _eager_weights(*inputs: Tensor) -> Tensor:
    return reference.simplex_weights(*inputs, STEPS, 0.0)


def _product_posterior(logits: Tensor, weights: Tensor, parts: Tensor) -> Tensor:
    """(h ⊗ g) times the parts as [R·C, C]."""
    pairs = weights[:, :, None] * logits.softmax(-1)[:, None, :]
    return pairs.flatten(1) @ parts.flatten(0, 1)


_plain = _batch(None, "logits", "labels", "weights", "parts", "slack")
_revised = _batch(SLACK, "logits", "labels", "weights", "parts", "slack")
_unlabelled = _batch(None, "logits", "weights", "parts")
_projection, _projection_peer = ptd_ext.ops.simplex_projection, reference.simplex_projection
_project, _project_peer = ptd_ext.ops.project_transition, reference.project_transition
OPERATORS = {
    "forward_loss": Operator(ptd_ext.forward_loss, peers.eager_column, _plain),
    "reweight_loss": Operator(ptd_ext.reweight_loss, reference.reweight_loss, _plain),
    "revised forward_loss": Operator(ptd_ext.forward_loss, peers.eager_column, _revised),
    "clean_posterior": Operator(ptd_ext.clean_posterior, reference.clean_posterior, _plain),
    "noisy_posterior": Operator(ptd_ext.ops.noisy_posterior, _product_posterior, _unlabelled),
    "simplex_projection": Operator(_projection, _projection_peer, _rows),
    "simplex_weights": Operator(_our_weights, _eager_weights, _weight_step),
    "project_transition": Operator(_project, _project_peer, _matrices),
}


def leaves(inputs: Inputs) -> list[Tensor]:
    return [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]


def backward_step(call: Callable[..., Tensor], inputs: Inputs) -> Callable[[], object]:
    """The forward and backward pass as a function without arguments."""
    grad = torch.randn_like(call(*inputs))
    return lambda: torch.autograd.grad(call(*inputs), leaves(inputs), grad)


def least_bytes(inputs: Inputs, result: Tensor) -> dict[str, int]:
    """The minimum bytes of each pass, which reads every input and writes every result once.

    A loss without slack reads only the columns of the parts that occur as labels. With slack it
    reads all, and the forward pass saves row sums [N, C] for the backward pass.
    """
    least = sum(map(_size, inputs)) + (_size(result) if result.dim() else 0)
    if len(inputs) == 5 and inputs[1] is not None and inputs[1].dtype is torch.int64:
        logits, labels, _, parts, slack = inputs
        if slack is None:
            least -= _size(parts) * (len(parts[0]) - labels.unique().numel()) // len(parts[0])
        else:
            least += _size(logits)
    backward = least + sum(map(_size, leaves(inputs)))
    return {"forward": least} | ({"forward+backward": least + backward} if leaves(inputs) else {})


def _size(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.numel() * tensor.element_size()
