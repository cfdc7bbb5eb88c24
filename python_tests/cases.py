"""Inputs and losses that the tests of the operators share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from random_numbers import new_generator
from torch import Tensor

import ptd_ext
from ptd_ext.ops import reference

CUDA = pytest.param(
    "cuda",
    marks=[
        pytest.mark.cuda,
        pytest.mark.skipif(
            not torch.cuda.is_available() or not ptd_ext.ops.build_info()["cuda"],
            reason="needs a GPU and a build with CUDA kernels",
        ),
    ],
)
DEVICES = ["cpu", CUDA]

# (N, C, R): empty, one, primes, around vector and block widths, odd everywhere, many classes.
SIZES = [
    (0, 3, 2),
    (1, 2, 1),
    (7, 3, 5),
    (17, 10, 20),
    (31, 14, 33),
    (67, 16, 3),
    (33, 17, 4),
    (20, 33, 7),
    (70, 64, 3),
    (19, 101, 6),
]


def normal(
    *shape: int, seed: int = 0, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> Tensor:
    """Normal random numbers, the same for every type and device."""
    g = new_generator(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64).to(device, dtype)


def normal_like(tensor: Tensor, seed: int = 1) -> Tensor:
    """Normal random numbers of the shape, type and device of a tensor."""
    return normal(*tensor.shape, seed=seed, dtype=tensor.dtype, device=str(tensor.device))


def uniform(
    *shape: int, seed: int = 0, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> Tensor:
    """Random numbers in [0, 1), the same for every type and device."""
    g = new_generator(seed)
    return torch.rand(shape, generator=g, dtype=torch.float64).to(device, dtype)


def simplex_projection(rows: Tensor) -> Tensor:
    """Row-wise Euclidean projection onto the simplex: exact zeros, as Eq. 4 makes them."""
    ordered = rows.sort(-1, descending=True).values
    excess = ordered.cumsum(-1) - 1
    rank = torch.arange(1, rows.shape[-1] + 1, device=rows.device)
    support = (ordered > excess / rank).sum(-1, keepdim=True)
    return (rows - excess.gather(-1, support - 1) / support).clamp(min=0)


@dataclass(frozen=True)
class Inputs:
    """Arguments of a loss."""

    logits: Tensor
    labels: Tensor
    weights: Tensor | None
    parts: Tensor
    slack: Tensor | None

    @property
    def transition(self) -> tuple[Tensor | None, Tensor, Tensor | None]:
        return self.weights, self.parts, self.slack

    @property
    def arguments(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor | None]:
        return self.logits, self.labels, *self.transition

    def leaves(self, *names: str) -> list[Tensor]:
        """The named tensors (all that can have a gradient, if none is named) that are there."""
        chosen = names or ("logits", "weights", "parts", "slack")
        return [t for name in chosen if (t := getattr(self, name)) is not None]

    def to(self, dtype: torch.dtype) -> Inputs:
        """Fresh leaves of another type."""
        return self.map(lambda t: t.detach().to(dtype, copy=True).requires_grad_(t.requires_grad))

    def map(self, change: Callable[[Tensor], Tensor]) -> Inputs:
        """The same with every floating-point tensor changed."""
        names = ("logits", "weights", "parts", "slack")
        return replace(self, **{n: change(t) for n in names if (t := getattr(self, n)) is not None})


def make_inputs(
    samples: int,
    classes: int,
    parts: int,
    *,
    slack: float | None = None,
    sparse: bool = True,
    weights: bool = True,
    ignored: bool = True,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
    seed: int = 0,
    grad: bool = True,
) -> Inputs:
    """Random inputs; `slack` is its size. The same numbers whatever the type and device."""
    g = new_generator(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    logits = 3 * normal(samples, classes)
    labels = torch.randint(classes, (samples,), generator=g)
    if ignored and samples > 4:
        labels[[1, samples - 1]] = -100
    if sparse:
        mix = simplex_projection(0.5 * normal(samples, parts))
        matrices = simplex_projection(
            0.6 * torch.eye(classes, dtype=torch.float64) + 0.2 * normal(parts, classes, classes)
        )
    else:
        mix = normal(samples, parts).softmax(-1)
        matrices = normal(parts, classes, classes).softmax(-1)
    change = None if slack is None else slack * normal(classes, classes)
    inputs = Inputs(
        logits,
        labels.to(device),
        mix if weights else None,
        matrices if weights else matrices[0],
        change,
    )
    return inputs.map(lambda t: t.to(dtype=dtype, device=device).requires_grad_(grad))


@dataclass(frozen=True)
class Loss:
    """A loss, its definition, and options of both."""

    name: str
    fused: Callable[..., Tensor]
    defined: Callable[..., Tensor]
    options: dict[str, Any]

    def __str__(self) -> str:
        return self.name


LOSSES = [
    Loss("forward", ptd_ext.forward_loss, reference.forward_loss, {}),
    Loss("detached", ptd_ext.reweight_loss, reference.reweight_loss, {}),
    Loss(
        "attached",
        ptd_ext.reweight_loss,
        reference.reweight_loss,
        {"importance": "attached"},
    ),
    Loss(
        "capped",
        ptd_ext.reweight_loss,
        reference.reweight_loss,
        {"importance": "attached", "max_importance": 1.3},
    ),
]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
each_device = pytest.mark.parametrize("device", DEVICES)
each_slack = pytest.mark.parametrize("slack", [None, 0.0, 1e-3, 0.3])


def gradients(result: Tensor, leaves: list[Tensor], seed: int = 1) -> list[Tensor]:
    """Gradients of `result` weighted by random numbers; zeros for leaves it does not depend on."""
    if not result.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    g = new_generator(seed)
    outer = torch.randn(result.shape, generator=g, dtype=torch.float64).to(result)
    found = torch.autograd.grad(result, leaves, outer, allow_unused=True)
    return [torch.zeros_like(t) if f is None else f for t, f in zip(leaves, found, strict=True)]


def assert_same(
    fused: Callable[[Inputs], Tensor], defined: Callable[[Inputs], Tensor], inputs: Inputs
) -> None:
    """Values and all gradients of both agree to rounding."""
    tolerance = 1e-11 if inputs.logits.dtype == torch.float64 else 2e-5
    result, expected = fused(inputs), defined(inputs)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    leaves = [leaf for leaf in inputs.leaves() if leaf.requires_grad]
    found, wanted = gradients(result, leaves), gradients(expected, leaves)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == theirs.shape
        scale = max(1.0, theirs.abs().max().item()) if theirs.numel() else 1.0
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * scale)


def peak_bytes(step: Callable[[], object]) -> int:
    """The maximum that a call of `step` holds at once, as torch's CPU allocator sees it."""
    step()  # what is kept from step to step is not the step's
    activities = [torch.profiler.ProfilerActivity.CPU]
    for _ in range(5):  # a profile now and then comes back without any event
        with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
            step()
        events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
        held = peak = 0
        for event in sorted(events, key=lambda e: e.start_ns()):
            held += event.nbytes()
            peak = max(peak, held)
        if peak > 0:
            return peak
    pytest.fail("the profiler saw no allocation in five tries")
