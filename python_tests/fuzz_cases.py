"""Arguments of losses with odd shapes, layouts, types and numbers, for the tests in fuzz/."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from random_numbers import SESSION_SEED
from torch import Tensor

import ptd_ext
from ptd_ext.ops import reference

NIGHTLY = settings.get_current_profile_name() == "nightly"
NAMES = ("logits", "weights", "parts", "slack")


def cases(ordinary: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same cases in every ordinary run, others with --random-seed; many more at night."""
    chosen = settings(
        max_examples=60 * ordinary if NIGHTLY else ordinary,
        derandomize=not (NIGHTLY or SESSION_SEED),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    return (lambda test: seed(SESSION_SEED)(chosen(test))) if SESSION_SEED else chosen


@dataclass(frozen=True)
class Case:
    """Arguments of a loss, and what holds for its result."""

    logits: Tensor
    labels: Tensor
    weights: Tensor | None
    parts: Tensor
    slack: Tensor | None
    ignore_index: int
    smoothing: float
    has_gradients: bool  # numbers are such that a definition in float64 has the same gradients

    @property
    def matrix(self) -> tuple[Tensor | None, Tensor, Tensor | None]:
        return self.weights, self.parts, self.slack

    def exact(self) -> Case:
        return self.map(lambda t: t.detach().double().requires_grad_(t.requires_grad))

    def map(self, change) -> Case:
        return replace(self, **{n: change(t) for n in NAMES if (t := getattr(self, n)) is not None})

    def leaves(self) -> list[Tensor]:
        return [t for n in NAMES if (t := getattr(self, n)) is not None and t.requires_grad]


def strided(draw, tensor: Tensor) -> Tensor:
    """The same numbers in another layout."""
    layout = draw(st.sampled_from(["dense", "transposed", "apart", "offset"]))
    if layout == "transposed" and tensor.dim() > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "apart":
        wide = tensor.new_zeros(*tensor.shape[:-1], 2 * tensor.shape[-1])
        wide[..., ::2] = tensor
        return wide[..., ::2]
    if layout == "offset":
        flat = torch.cat([tensor.new_zeros(1), tensor.flatten()])
        return flat[1:].view(tensor.shape)
    return tensor


SMALL = st.sampled_from([1, 2, 3, 5, 7, 8, 11, 16, 17, 31, 32, 33, 37, 40, 67])
PARTS = (1, 2, 3, 5, 13, 20)
DTYPES = [torch.float32] * 3 + [torch.float64, torch.bfloat16, torch.float16]
LOGITS = ("normal", "large", "1e38", "masked", "sure", "subnormal", "not finite")
MATRICES = ("dyadic", "random", "column layout", "without mass", "subnormal", "not finite")


def make_logits(draw, normal, samples: int, classes: int) -> Tensor:
    kind = draw(st.sampled_from(LOGITS))
    logits = 3 * normal(samples, classes)
    if kind == "large":
        logits = 100 * logits
    elif kind == "1e38":
        logits = 1e38 * logits.sign()
    elif kind == "masked" and classes > 1:
        logits[:, 1:][logits[:, 1:] > 1] = -torch.inf
    elif kind == "sure" and samples:
        logits[:, 0] += draw(st.sampled_from([20.0, 60.0]))
    elif kind == "subnormal":
        logits = 1e-40 * logits
    elif kind == "not finite" and samples:
        value = draw(st.sampled_from([torch.nan, torch.inf, -torch.inf]))
        logits[draw(st.integers(0, samples - 1)), draw(st.integers(0, classes - 1))] = value
    return logits


@st.composite
def make_case(draw, max_samples: int = 40, classes=SMALL, most_parts: int = 20) -> Case:
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=g, dtype=torch.float64)

    samples = draw(st.integers(0, max_samples))
    c, r = draw(classes), draw(st.sampled_from([n for n in PARTS if n <= most_parts]))
    dtype = draw(st.sampled_from(DTYPES))
    logits = make_logits(draw, normal, samples, c)
    kind = draw(st.sampled_from(MATRICES))
    has_slack = draw(st.booleans())
    if kind == "random":
        weights, parts = normal(samples, r).softmax(-1), normal(r, c, c).softmax(-1)
        slack = 0.1 * normal(c, c)
    else:
        # Multiples of 1/256, whose sums are exact in every type: many are exactly zero with slack.
        counts = torch.randint(r, (16, samples), generator=g)
        weights = torch.nn.functional.one_hot(counts, r).sum(0).double() / 16
        counts = torch.randint(c, (16 if c > 4 else 4, r, c), generator=g) % 5
        counts = (counts + torch.arange(c)) % c
        parts = torch.nn.functional.one_hot(counts, c).sum(0).double() / len(counts)
        slack = torch.randint(-64, 65, (c, c), generator=g).double() / 256
        slack[torch.rand(c, c, generator=g) < 0.3] = 0
    if kind == "without mass":
        slack[draw(st.integers(0, c - 1))] = -2.0
    elif kind == "subnormal":
        # With slack a row may be left with nothing else, and is empty where its sum is subnormal.
        parts[..., draw(st.integers(0, c - 1))] = 1e-37 if has_slack else 1e-40
    elif kind == "not finite":
        place = tuple(draw(st.integers(0, size - 1)) for size in (r, c, c))
        parts[place] = torch.nan
    elif kind == "column layout":
        parts = ptd_ext.ops.prepare_parts(parts)
    labels = torch.randint(c, (samples,), generator=g)
    ignore_index = draw(st.sampled_from([-100, 0, 1]))
    if ignore_index < 0 and draw(st.booleans()):
        labels[::3] = ignore_index
    labels = labels.to(draw(st.sampled_from([torch.int64, torch.int32])))
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    smoothing = draw(st.sampled_from([1e-8, 1e-8, 0.1, 0.0]))
    if logits.numel() and logits.abs().nan_to_num(0, 0).max() > 1e30:
        smoothing = smoothing or 1e-8  # the definition adds log u to logits, which is lost there
    single = draw(st.sampled_from([False, False, False, True]))
    case = Case(
        logits.to(dtype), strided(draw, labels), None if single else weights.to(wide),
        parts[0].to(wide) if single else parts.to(wide), slack.to(wide) if has_slack else None,
        ignore_index, smoothing, kind not in ("subnormal", "not finite") and smoothing > 0,
    )  # fmt: skip
    wanted = draw(st.lists(st.booleans(), min_size=4, max_size=4))
    if kind != "column layout":
        case = case.map(lambda t: strided(draw, t))
    needs = dict(zip(NAMES, wanted, strict=True))
    return replace(
        case,
        **{
            n: t.detach().requires_grad_(needs[n])
            for n in NAMES
            if (t := getattr(case, n)) is not None
        },
    )


def assert_near(found: Tensor, wanted: Tensor, tolerance: float, what: str) -> None:
    """Equal to rounding where the definition is finite; rows not finite where that is not."""
    assert found.shape == wanted.shape, what
    found, wanted = found.detach().double(), wanted.detach().double()
    finite = wanted.isfinite() & (wanted.abs() < 1e37)
    scale = wanted[finite].abs().max().item() if finite.any() else 1.0
    error = (found - wanted)[finite].abs()
    assert error.numel() == 0 or error.max() <= tolerance * max(1.0, scale), (
        f"{what}: {error.max()} of {scale}, {found[finite][error.argmax()]}"
    )
    if not wanted.isfinite().all():
        rows = (wanted.shape[:-1].numel(), -1) if wanted.dim() > 1 else (-1, 1)
        lost, broken = (~t.isfinite().reshape(*rows).all(-1) for t in (wanted, found))
        assert broken[lost].all(), what


def check(case: Case, function, definition) -> None:
    """Values, and gradients of a sum with weights of both signs."""
    exact = case.exact()
    result, expected = function(case), definition(shifted(exact))
    tolerance = 1e-9 if case.parts.dtype == torch.float64 else 3e-4
    assert_near(result, expected, tolerance, "value")
    kept = expected.detach().isfinite() & (expected.detach().abs() < 1e30)
    leaves = case.leaves()
    if not leaves or result.grad_fn is None or not kept.all() or not case.logits.isfinite().all():
        return
    outer = torch.linspace(-1, 2, result.numel(), dtype=torch.float64).view(result.shape)
    found = torch.autograd.grad(result, leaves, outer.to(result), allow_unused=True)
    if not case.has_gradients or (case.slack is not None and near_a_kink(exact)):
        return
    wanted = [None] * len(leaves)
    if expected.requires_grad:  # a detached importance leaves parts alone without a gradient
        wanted = torch.autograd.grad(expected, exact.leaves(), outer, allow_unused=True)
    for leaf, ours, theirs in zip(leaves, found, wanted, strict=True):
        theirs = torch.zeros_like(leaf) if theirs is None else theirs
        ours = torch.zeros_like(leaf) if ours is None else ours
        assert ours.dtype == leaf.dtype
        narrow = 2e-2 if leaf.dtype in (torch.bfloat16, torch.float16) else 20 * tolerance
        # A gradient of half precision is infinite where it is larger than any such number.
        assert_near(ours, theirs.to(leaf.dtype), narrow, f"gradient {list(leaf.shape)}")


def shifted(exact: Case) -> Case:
    """Shift logits to a maximum of 0, since 1e38 + log u would be rounded to 1e38."""
    top = exact.logits.detach().amax(1, keepdim=True) if exact.logits.numel() else 0
    return replace(exact, logits=exact.logits - top)


def near_a_kink(exact: Case) -> bool:
    """True if rounding could change the sign of an entry of T(x) + slack."""
    with torch.no_grad():
        entries = reference.transition_matrix(exact.weights, exact.parts) + exact.slack
    return bool(((entries != 0) & (entries.abs() < 1e-6)).any())


@contextlib.contextmanager
def surroundings(name: str):
    managers = {
        "plain": contextlib.nullcontext,
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    }
    with managers[name]():
        yield


AROUND = st.sampled_from(["plain", "plain", "plain", "no_grad", "inference", "autocast"])


@st.composite
def make_options(draw) -> dict:
    options = {"reduction": draw(st.sampled_from(["none", "mean", "sum"]))}
    if draw(st.booleans()):
        options["importance"] = draw(st.sampled_from(["detached", "attached"]))
        options["max_importance"] = draw(st.sampled_from([None, None, 0.5, 3.0]))
    return options


def loss_of(module, case: Case, options: dict) -> Tensor:
    function = module.reweight_loss if "importance" in options else module.forward_loss
    fixed = {"ignore_index": case.ignore_index, "smoothing": case.smoothing}
    return function(case.logits, case.labels, *case.matrix, **fixed, **options)


def check_loss(case: Case, options: dict, around: str) -> None:
    def fused(case: Case) -> Tensor:
        with surroundings(around):
            return loss_of(ptd_ext, case, options)

    check(case, fused, lambda exact: loss_of(reference, exact, options))
