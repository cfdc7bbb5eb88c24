"""Numbers at which float32 would overflow, underflow or cancel on the way to a finite result."""

from __future__ import annotations

import torch
from random_numbers import new_generator
from torch import Tensor

from ptd_ext.ops import reference

Arguments = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]

# Sums of a row, and if such a row is empty: one over a subnormal number may be infinite.
ROW_SUMS = {1e-44: True, 2e-39: True, 1.1e-38: True, 1.1754943508222875e-38: False}
ROW_SUMS |= {1.3e-38: False, 1e-30: False}


def row_of_sum(classes: int, row_sum: float) -> Arguments:
    """Slack leaves row 1 of T(x) nothing but `row_sum`, in its third entry."""
    g = new_generator(classes)
    parts = torch.full((2, classes, classes), 1 / 2)
    parts[:, 1] = 0
    slack = torch.zeros(classes, classes)
    slack[1] = -1
    slack[1, 2] = row_sum
    logits = torch.randn(6, classes, generator=g)
    return logits, torch.arange(6) % 3, torch.rand(6, 2, generator=g).softmax(-1), parts, slack


def nearly_certain(classes: int, gap: float) -> Arguments:
    """Class 0 is all but certain, though smoothing alone lets it have the label 1."""
    g = new_generator(classes)
    logits = torch.randn(4, classes, generator=g)
    logits[:, 0] += gap
    parts = torch.rand(1, classes, classes, generator=g).softmax(-1)
    parts[:, 0] = 0
    parts[:, 0, 0] = 1
    return logits, torch.ones(4, dtype=torch.int64), torch.ones(4, 1), parts, None


def ruled_out(classes: int, gap: float, own: float) -> Arguments:
    """The network is sure of class 0, which has its own label with probability `own`."""
    logits, _, weights, parts, _ = nearly_certain(classes, gap)
    parts[:, 0, 0] = own
    parts[:, 0, 1] = 1
    return logits, torch.zeros(4, dtype=torch.int64), weights, parts, None


def tiny_column(classes: int, mass: float) -> Arguments:
    """No class gives the label 1 with more than `mass`, and half of them never."""
    logits, labels, weights, parts, _ = nearly_certain(classes, 0)
    parts[:, :, 1] = mass * torch.arange(classes).remainder(2)
    return logits, labels, weights, parts, None


def equal_terms(classes: int) -> tuple[Arguments, float, float, float]:
    """One sample, and the gradient of its weight by the definition, with its scale and tolerance.

    The gradient is a sum of C² products P_ik dL/dM_ik; `scale` is the sum of their magnitudes. All
    that are not in the label's column are equal. At C = 1000 a running sum in each of 4 to 32 lanes
    has an error of 6e-5 of the scale, since every addition rounds the same way; sums in blocks have
    7e-7. The tolerance is the geometric mean of the two.
    """
    arguments = (
        torch.zeros(1, classes),
        torch.tensor([classes // 2]),
        torch.ones(1, 1),
        torch.full((1, classes, classes), 1 / classes),
        torch.full((classes, classes), 0.1 / classes),
    )
    exact = converted(arguments, torch.float64)
    loss = reference.forward_loss(*exact, reduction="sum")
    grad_weights, grad_slack = torch.autograd.grad(loss, (exact[2], exact[4]))
    scale = (exact[3] * grad_slack).abs().sum().item()
    return arguments, grad_weights.item(), scale, 6e-6


def converted(arguments: Arguments, dtype: torch.dtype, device: str = "cpu") -> Arguments:
    """The same numbers as fresh leaves."""
    logits, labels, *rest = arguments
    leaves = [None if t is None else t.detach().to(device, dtype) for t in (logits, *rest)]
    leaves = [None if t is None else t.requires_grad_() for t in leaves]
    return leaves[0], labels.to(device), *leaves[1:]


def outer_gradient(like: Tensor) -> Tensor:
    return torch.linspace(-1, 2, like.numel()).view(like.shape).to(like)


def assert_as_exact(found: Tensor, wanted: Tensor) -> None:
    """Equal to rounding of the largest number."""
    scale = max(1.0, wanted.detach().abs().max().item())
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5 * scale)
