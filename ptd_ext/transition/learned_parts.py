"""Part transitions and their gate, learned by the likelihood of the noisy labels.

Parts that reconstruct the features need not be those along which the noise varies. Here the gate
h(x) and the matrices Pʲ are found discriminatively, with the network frozen: they maximise the
likelihood of the noisy labels under T(x)ᵀg. With the network frozen the noise rate may be learned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ptd_ext.nmf.estimator import MAX_PARTS
from ptd_ext.ops.functional import forward_loss
from ptd_ext.transition.estimate import EstimatedTransition
from ptd_ext.transition.gate import LinearGate
from ptd_ext.transition.model import PartTransition
from ptd_ext.transition.pred_probs import combine
from ptd_ext.transition.verified import IGNORED, as_verified, restrict
from ptd_ext.utils.arguments import check_integer, check_nonnegative, check_same_index
from ptd_ext.utils.ids import as_labels, as_rows, as_tensor

# Defaults, also of the settings.
N_PARTS, N_COMPONENTS, MIN_GAIN = 10, 64, 0.0

_SMALLEST = 1e-12  # smallest argument of a logarithm, and smallest divisor
_SPREAD = 0.3  # standard deviation between the parts at the start
_UNIFORM = 0.1  # uniform share of a row at the start: no entry starts at zero
_RATES = (0.01, 0.95)  # range of the noise rate at the start
_EM_STEPS = 50  # for the start, unless it is given
_SIZES = (1e-30, 1e30)  # range of features: the gate and its centre are float32


@dataclass(frozen=True, kw_only=True)
class LearnedParts(EstimatedTransition):
    """The result of :func:`fit_learned_parts`: an :class:`EstimatedTransition` with a gate.

    If learning does not help, the only part is the start.

    Attributes:
        weights: h(x) of the samples, [N, R].
        gate: gives a sample its weights h(x).
        kept_start: whether the class-dependent start was kept.
        gain: mean log-likelihood of held-out noisy labels minus that of the start.
        gain_error: the standard error of the gain.
        n_epochs: number of epochs run.
    """

    weights: Tensor = field(repr=False, metadata={"shape": "NR"})
    gate: LinearGate = field(repr=False)
    kept_start: bool
    gain: float
    gain_error: float
    n_epochs: int

    def part_transition(self, **about: Any) -> PartTransition:
        """The model, to save, to load and to apply to new features."""
        return PartTransition(self.parts, gate=self.gate, about=about)


def fit_learned_parts(
    features: Any,
    clean_probs: Any,
    noisy_labels: Any,
    *,
    transition: Any = None,
    verified: Any = None,
    n_parts: int = N_PARTS,
    n_components: int = N_COMPONENTS,
    validation_fraction: float = 0.1,
    validation_mask: Any = None,
    min_gain: float = MIN_GAIN,
    max_epochs: int = 15,
    patience: int = 3,
    batch_size: int = 512,
    lr: float = 1e-2,
    gate_penalty: float = 1e-4,
    random_state: int = 0,
) -> LearnedParts:
    r"""T(x) = Σⱼ hⱼ(x) Pʲ with a gate and parts that maximise the likelihood of noisy labels.

    With g the posterior of the *clean* label, as a network trained through T gives it, and φ(x)
    the principal components of the features::

        h = softmax(φ V + c)        Pʲᵢ = (1 − r) eᵢ + r · softmax_{k≠i}(Bʲᵢ)
        min  −mean log (T(x)ᵀg)_ȳ + gate_penalty · ‖V‖²    over V, c, B and r, by Adam

    It stops when held-out samples gain no more. Where they never gain, the start is kept.

    Args:
        features: x, [N, D].
        clean_probs: g, P(true label | x), [N, C]: softmax of the network trained with
            :class:`ptd_ext.TransitionEM`, or several to be averaged, in the forms that
            :func:`ptd_ext.transition.combine_pred_probs` takes.
        noisy_labels: ȳ, [N].
        transition: the class-dependent start, [C, C]. By default it is estimated from g and ȳ.
        verified: what reviewers found, [N]: the true class; -1 where nobody has looked, -2 where
            the given label is wrong and the true one unknown, -3 where no class is right, which
            leaves the sample out. Where the true class y is known, the likelihood is that of T_yȳ.
        n_parts: R.
        n_components: principal components, at most D.
        validation_fraction: share of samples held out to evaluate the fit, at random.
        validation_mask: mask [N] of the samples held out, instead of a share. Samples that the
            network was not trained on are best.
        min_gain: number of standard errors that held-out samples must gain; otherwise the start
            is kept.
        max_epochs: maximum number of epochs.
        patience: number of epochs without a gain that end the fit.
        batch_size: number of samples in a step.
        lr: Adam's learning rate.
        gate_penalty: weight of the squares of V.
        random_state: seed of the start, the order and the held-out share.

    Examples:
        >>> generator = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(300) % 3
        >>> features = torch.randn(300, 4, generator=generator) + 3 * torch.eye(3, 4)[labels]
        >>> clean_probs = (3 * features[:, :3]).softmax(1)
        >>> fit = ptd_ext.fit_learned_parts(features, clean_probs, labels, n_parts=2)
        >>> fit.parts.shape[1:]
        torch.Size([3, 3])
    """
    check_same_index(features=features, clean_probs=clean_probs, noisy_labels=noisy_labels)
    features = as_rows(features, "features", "D")
    posterior, _ = combine(clean_probs, None, "clean_probs")
    samples, classes = posterior.shape
    labels, _ = as_labels(noisy_labels, classes)
    if len(features) != samples or len(labels) != samples:
        raise ValueError(
            f"features, clean_probs and noisy_labels must be of the same samples; got "
            f"{len(features)}, {samples} and {len(labels)}."
        )
    n_parts = check_integer(n_parts, "n_parts", maximum=MAX_PARTS)
    n_components = check_integer(n_components, "n_components")
    max_epochs = check_integer(max_epochs, "max_epochs")
    patience = check_integer(patience, "patience")
    batch_size = check_integer(batch_size, "batch_size")
    random_state = check_integer(random_state, "random_state", 0, 2**63 - 1)
    lr, gate_penalty = check_nonnegative(lr, "lr"), check_nonnegative(gate_penalty, "gate_penalty")
    min_gain = check_nonnegative(min_gain, "min_gain", finite=False)
    if samples < 2:
        raise ValueError(f"features must have at least 2 samples, one held out; got {samples}.")
    largest = features.abs().max().item()
    if largest and not _SIZES[0] <= largest <= _SIZES[1]:
        raise ValueError(
            f"features must have a largest absolute value from {_SIZES[0]:g} to {_SIZES[1]:g}; got "
            f"{largest:.3g}. Scale them."
        )
    device = features.device
    generator = torch.Generator().manual_seed(random_state)
    judge = _held_out(validation_fraction, validation_mask, samples, generator).to(device)
    logits = posterior.to(device, torch.float32).clamp(min=_SMALLEST).log()
    labels = labels.to(device)
    if verified is not None:
        codes = as_verified(verified, samples, classes).to(device)
        logits, labels, _ = restrict(logits, labels, codes)
        counted = labels != IGNORED
        if not (counted & judge).any() or not (counted & ~judge).any():
            raise ValueError(
                "verified must leave samples to fit and samples to evaluate on; none of the "
                "classes is right for all of one kind."
            )
        judge = judge & counted
        fitted = ~judge & counted
    else:
        fitted = ~judge
    start = _start(transition, logits[fitted], labels[fitted]).to(device)
    centre, directions = _principal(features[fitted], min(n_components, features.shape[1]))
    reduced = (features.to(directions) - centre).float() @ directions.float()

    model = _Model(start, reduced.shape[1], n_parts, generator).to(device)
    train = fitted.nonzero()[:, 0]
    judged = reduced[judge], logits[judge], labels[judge]
    before = forward_loss(*judged[1:], None, start, reduction="none")
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    best, state, waited, epoch = before.mean(), None, 0, 0
    for epoch in range(1, max_epochs + 1):  # noqa: B007 (part of the result)
        order = train[torch.randperm(len(train), generator=generator).to(device)]
        for batch in order.split(batch_size):
            loss = model.loss(reduced[batch], logits[batch], labels[batch]).mean()
            loss = loss + gate_penalty * model.gate.square().sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            after = model.loss(*judged)
        waited += 1
        if after.mean() < best:
            best, waited, gained = after.mean(), 0, before - after
            state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if waited == patience:
            break

    gain, error, kept = 0.0, 0.0, True
    if state is not None:
        gain = gained.mean().item()
        error = (gained.std() / len(gained) ** 0.5).item() if len(gained) > 1 else 0.0
        kept = not gain >= min_gain * error  # NaN, of infinity times zero, keeps it
    if kept or state is None:
        gate = LinearGate(torch.zeros(1, features.shape[1]), torch.zeros(1), centre.cpu().float())
        parts = start[None].clone()
    else:
        model.load_state_dict(state)
        with torch.no_grad():
            weight = (directions @ model.gate.double()).T.float()
            gate = LinearGate(weight, model.bias.detach().clone(), centre.float())
            parts = model.parts()
    gate = gate.to(device)
    return LearnedParts(
        parts=parts,
        class_prior=logits.softmax(1).mean(0),
        n_samples=samples,
        weights=gate(features),
        gate=gate,
        kept_start=kept,
        gain=gain,
        gain_error=error,
        n_epochs=epoch,
    )


class _Model(torch.nn.Module):
    """The gate over reduced features, and the parts, as free parameters."""

    eye: Tensor  # [C, C]
    shape: torch.nn.Parameter  # B, [R, C, C]

    def __init__(self, start: Tensor, size: int, parts: int, generator: torch.Generator) -> None:
        super().__init__()
        classes = len(start)
        off = start.cpu().clone().fill_diagonal_(0.0)
        off = off / off.sum(1, keepdim=True).clamp(min=_SMALLEST)
        logits = ((1 - _UNIFORM) * off + _UNIFORM / (classes - 1)).log()
        noise = torch.randn(parts, classes, classes, generator=generator)
        gate = torch.randn(size, parts, generator=generator) / size**0.5
        rate = (1 - start.diagonal()).mean().clamp(*_RATES).cpu()
        self.gate = torch.nn.Parameter(gate)  # V, [d, R]
        self.bias = torch.nn.Parameter(torch.zeros(parts))  # c, [R]
        self.shape = torch.nn.Parameter(logits + _SPREAD * noise)  # B, [R, C, C]
        self.rate_logit = torch.nn.Parameter(rate.logit())
        self.register_buffer("eye", torch.eye(classes))

    def rate(self) -> Tensor:
        return self.rate_logit.sigmoid()

    def parts(self) -> Tensor:
        off = self.shape.masked_fill(self.eye.bool(), -torch.inf).softmax(-1)
        return (1 - self.rate()) * self.eye + self.rate() * off

    def loss(self, reduced: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        weights = torch.addmm(self.bias, reduced, self.gate).softmax(1)
        return forward_loss(logits, labels, weights, self.parts(), reduction="none")


def _held_out(share: Any, given: Any, samples: int, generator: torch.Generator) -> Tensor:
    if given is None:
        if not isinstance(share, Real) or not 0 < float(share) < 1:
            raise ValueError(f"validation_fraction must be between 0 and 1; got {share!r}.")
        count = min(max(1, round(float(share) * samples)), samples - 1)
        mask = torch.zeros(samples, dtype=torch.bool)
        mask[torch.randperm(samples, generator=generator)[:count]] = True
        return mask
    mask = as_tensor(given, "validation_mask").cpu()
    if mask.shape != (samples,) or mask.dtype is not torch.bool:
        raise ValueError(
            f"validation_mask must be a bool mask [{samples}]; got {mask.dtype} {list(mask.shape)}."
        )
    if mask.all() or not mask.any():
        raise ValueError("validation_mask must leave samples to fit and samples to evaluate on.")
    return mask


def _start(given: Any, logits: Tensor, labels: Tensor) -> Tensor:
    """The class-dependent matrix given, or that of the largest likelihood with g as it is."""
    classes = logits.shape[1]
    if given is not None:
        start = as_tensor(given, "transition").float()
        if start.shape != (classes, classes):
            raise ValueError(f"transition must be [{classes}, {classes}]; got {list(start.shape)}.")
        sums = start.sum(1)
        if not (start.isfinite().all() and (start >= 0).all() and ((sums - 1).abs() < 1e-3).all()):
            raise ValueError("transition must have rows of probabilities with sum 1.")
        return start
    start = torch.full((classes, classes), 0.5 / (classes - 1), device=logits.device)
    start.fill_diagonal_(0.5)
    chosen = torch.nn.functional.one_hot(labels, classes).float()
    posterior = logits.softmax(1)
    for _ in range(_EM_STEPS):
        joint = posterior * start.T[labels]
        counts = (joint / joint.sum(1, keepdim=True).clamp(min=_SMALLEST)).T @ chosen
        sums = counts.sum(1, keepdim=True)
        start = torch.where(sums >= _SMALLEST, counts / sums.clamp(min=_SMALLEST), start)
    return start


def _principal(features: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The mean [D] and directions [D, count], scaled so that the components' mean square is 1."""
    centre = features.double().mean(0)
    if len(centre) > len(features):  # a covariance would take more memory than the features
        _, singular, rows = torch.linalg.svd(features.double() - centre, full_matrices=False)
        values, vectors = singular[:count] ** 2 / len(features), rows[:count].T
    else:
        values, vectors = _covariance_directions(features, centre, count)
    # The sign of an eigenvector is free: its largest entry is made positive.
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    vectors = vectors * torch.where(largest < 0, -1.0, 1.0)
    scale = values.clamp(min=0.0).mean().sqrt()
    # Features that differ by less are constant, but for rounding.
    return centre, vectors / torch.where(scale >= _SIZES[0], scale, 1.0)


def _covariance_directions(features: Tensor, centre: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues of the covariance and their eigenvectors [D, count], in blocks."""
    covariance = centre.new_zeros(len(centre), len(centre))
    for block in features.split(1 << 14):
        moved = block.double() - centre
        covariance.addmm_(moved.T, moved)
    values, vectors = torch.linalg.eigh(covariance / len(features))
    return values[-count:].flip(0), vectors[:, -count:].flip(1)
