"""One transition matrix, estimated by running counts while a network trains through it.

The network's posterior of the clean label, q = P(Y | x, ȳ), says for every sample which class its
noisy label came from. The counts Σ q e_ȳᵀ over recent samples, row by row, are the transition
matrix (expectation maximisation, one batch at a time). No anchors are needed, and no second pass.

A network and a free noise rate that are learned together drift to too little noise. Therefore the
diagonal is held at a rate that is known beforehand, and only the off-diagonal shape is learned.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from ptd_ext.ops.checks import check_tensors
from ptd_ext.ops.functional import forward_loss
from ptd_ext.transition.barrier import ClassBarrier, ClassPrior
from ptd_ext.transition.count_start import count_start
from ptd_ext.transition.summary import TransitionSummary, summarise
from ptd_ext.utils.arguments import whole_number
from ptd_ext.utils.ids import as_labels, as_tensor

__all__ = ["TransitionEM"]

_RATES = (0.02, 0.8)  # a rate below learns nothing, one above leaves no diagonal
_SAMPLES_PER_ENTRY = 50  # of the matrix, in the window of the counts
_SMALLEST = 1e-30  # of a sum that is divided by


class TransitionEM(nn.Module):
    r"""The forward loss through a matrix T that it estimates itself, from the first step on.

    Three calls in a loop of one's own::

        em = ptd_ext.TransitionEM(noisy_labels, noise_rate=0.4)  # or from_posterior(…)
        loss = em(network(x), y)        # every step; backward and the optimiser as ever
        print(em.summary())             # in the end, or em.transition, [C, C]

    With ρ the noise rate and S the running mean of q e_ȳᵀ::

        off = (1 − base_share) · rownorm(S without its diagonal) + base_share · base
        rᵢ = min(ρ, 1 / (1 + maxₖ offᵢₖ))              the diagonal stays the largest entry
        T = diag(1 − r) + r · off
        loss = forward loss through T + a term that keeps classes from dying

    The last term, with ḡ the mean prediction of the batch and p the shares of the noisy labels, is
    barrier · Σ p_c · relu(log(p_c / 2) − log ḡ_c), or prior_weight · KL(π ‖ ḡ) for a class prior π
    that is known. Counts are taken in training mode only, without a host synchronisation.

    Args:
        noisy_labels: of the whole training set, [N]: N and the shares of the labels.
        noise_rate: ρ, clamped to 0.02 … 0.8. :meth:`from_posterior` finds one. One minus the
            best accuracy of a network on noisy validation data, and the `noise_rate` of
            :func:`ptd_ext.neighbour_transition`, are somewhat too high.
        classes: C; by default the largest label plus one.
        class_prior: shares of the clean classes: None for unknown, "uniform", or [C].
        barrier: weight of the term that keeps classes alive where no prior is known.
        prior_weight: weight of the divergence from a known prior.
        base: a matrix [C, C] that the off-diagonal of T starts from and is drawn to, such as
            `base()` of :func:`ptd_ext.neighbour_transition`'s result; uniform by default.
        base_share: share of the base in the off-diagonal of T.
        hold_diagonal: whether ρ is held. Otherwise every row has the rate of its own counts,
            which drifts to too little noise while the network learns.
        window: samples that the counts go back over; by default min(N/4, 50·C²).
        over_ranks: sum counts over the ranks of `torch.distributed` where it is initialised, for
            loops in which each rank has batches of its own.
    """

    joint: Tensor  # S, [C, C]: the running mean of q e_ȳᵀ, which sums to one
    base: Tensor  # [C, C], rows of the off-diagonal that T starts from
    noise_rate: Tensor  # []
    seen: Tensor  # [], samples so far

    def __init__(
        self,
        noisy_labels: Any,
        noise_rate: float,
        *,
        classes: int | None = None,
        class_prior: ClassPrior = None,
        barrier: float = 1.0,
        prior_weight: float = 0.3,
        base: Any = None,
        base_share: float = 0.4,
        hold_diagonal: bool = True,
        window: int | None = None,
        over_ranks: bool = True,
    ) -> None:
        super().__init__()
        labels, classes = as_labels(noisy_labels, classes)
        if not len(labels):
            raise ValueError("noisy_labels must be those of the training set; got none.")
        if not 0 <= base_share <= 1:
            raise ValueError(f"base_share must be from 0 to 1; got {base_share}.")
        window = None if window is None else whole_number(window, "window")
        self.classes = classes
        self.samples = len(labels)
        self.window = window or max(1, min(len(labels) // 4, _SAMPLES_PER_ENTRY * classes**2))
        self.base_share, self.hold_diagonal = float(base_share), bool(hold_diagonal)
        self.over_ranks = over_ranks
        shares = labels.bincount(minlength=classes).float() / len(labels)
        self.barrier = ClassBarrier(
            shares.cpu(), class_prior, weight=barrier, prior_weight=prior_weight
        )
        self.register_buffer("noise_rate", torch.tensor(_held_rate(noise_rate, classes)))
        self.register_buffer("base", _off_diagonal(base, classes))
        rows = torch.lerp(torch.eye(classes), self.base, self.noise_rate)
        self.register_buffer("joint", shares.cpu()[:, None] * rows)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    @classmethod
    def from_posterior(
        cls, noisy_posterior: Any, noisy_labels: Any, validation_error: float, **options: Any
    ) -> TransitionEM:
        """A start that works better, from a network that was trained by cross entropy before.

        The noise rate is the mean of the anchors' and of the error on held-out noisy labels, which
        err on opposite sides. The base is half the anchors' matrix and half uniform, and all
        uniform where anchors find that half of the labels are wrong.

        Args:
            noisy_posterior: P(Ȳ | x) of the training samples by that network, [N, C].
            noisy_labels: of the training samples, [N].
            validation_error: the share of held-out noisy labels that the network misses.
            **options: other arguments of the class.
        """
        start = count_start(noisy_posterior, noisy_labels, validation_error)
        options = {"classes": len(start.base), "base": start.base, **options}
        return cls(noisy_labels, start.noise_rate, **options)

    def forward(self, logits: Tensor, noisy_labels: Tensor, *, ignore_index: int = -100) -> Tensor:
        """The mean loss of a batch, [N, C] logits and [N] labels; in training mode it counts too.

        The counts use T as it is in this loss. Samples labelled `ignore_index` do not count.
        """
        check_tensors(logits=logits, noisy_labels=noisy_labels)
        if logits.dim() != 2 or logits.shape[1] != self.classes:
            raise ValueError(f"logits must be [N, {self.classes}]; got {list(logits.shape)}.")
        if not len(logits):
            raise ValueError("logits must be those of at least one sample; got none.")
        rows = logits if logits.dtype is torch.float64 else logits.float()
        transition = self.transition.to(rows.dtype)
        loss, counts = _EMPass.apply(rows, noisy_labels, transition, self.barrier, ignore_index)
        if self.training:
            self._count(counts)
        return loss

    @property
    def transition(self) -> Tensor:
        """T as the counts so far have it, [C, C]."""
        wrong = self.joint.clone().fill_diagonal_(0.0)
        sums = wrong.sum(1, keepdim=True)
        shape = torch.where(sums >= _SMALLEST, wrong / sums.clamp(min=_SMALLEST), self.base)
        off = torch.lerp(shape, self.base, self.base_share)
        rate = self.noise_rate
        if not self.hold_diagonal:
            rate = sums[:, 0] / self.joint.sum(1).clamp(min=_SMALLEST)
        rate = torch.minimum(rate, 1 / (1 + off.amax(1)))
        return torch.addcmul(torch.diag(1 - rate), rate[:, None], off)

    def summary(self) -> TransitionSummary:
        """The noise rate, the diagonal, and how far to trust them."""
        return summarise(self.transition[None], self.joint.sum(1), self.samples)

    @torch.no_grad()
    def _count(self, counts: Tensor) -> None:
        counts = counts.to(self.joint)
        # A batch that overflowed, which a gradient scaler skips, must not stay in the counts.
        counts = torch.where(counts.isfinite().all(), counts, 0.0)
        if self.over_ranks and dist.is_available() and dist.is_initialized():
            dist.all_reduce(counts)
        total = counts.sum()
        # The first counts replace the start; a batch of ignored samples changes nothing.
        share = torch.where(self.seen > 0, (total / self.window).clamp(max=1.0), 1.0)
        share = torch.where(total > 0, share, 0.0)
        self.joint.lerp_(counts / total.clamp(min=_SMALLEST), share)
        self.seen += total.round().long()


class _EMPass(torch.autograd.Function):
    """Loss and counts Σ q e_ȳᵀ, from one call of the fused loss.

    Its gradient by the logits is g − q, so that q = g − gradient, and nothing is computed twice.
    With a penalty f(ḡ) and aᵢ = ∂f/∂ḡᵢ the whole gradient is (g − q)/n + g ∘ (a − ⟨g, a⟩)/N.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,  # [N, C]
        labels: Tensor,  # [N]
        transition: Tensor,  # [C, C]
        barrier: ClassBarrier,
        ignore_index: int,
    ) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            total = forward_loss(
                leaf, labels, None, transition, reduction="sum", ignore_index=ignore_index
            )
            (difference,) = torch.autograd.grad(total, leaf)
        posterior = logits.softmax(1)
        chosen = labels[:, None] == torch.arange(logits.shape[1], device=labels.device)
        counts = (posterior - difference).clamp_(min=0.0).T @ chosen.to(posterior.dtype)
        counted = chosen.sum().clamp(min=1)
        penalty, slope = barrier.of_mean(posterior.mean(0), len(logits))
        pull = posterior * (slope - (posterior @ slope)[:, None])
        ctx.save_for_backward(torch.add(difference / counted, pull, alpha=1 / len(logits)))
        ctx.mark_non_differentiable(counts)
        return total.detach() / counted + penalty, counts

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return grad * gradient, None, None, None, None


def _off_diagonal(base: Any, classes: int) -> Tensor:
    """Rows of the base without its diagonal, with sum one; uniform where there is nothing."""
    uniform = torch.full((classes, classes), 1 / (classes - 1)).fill_diagonal_(0.0)
    if base is None:
        return uniform
    base = as_tensor(base, "base").float().cpu()
    if base.shape != (classes, classes):
        raise ValueError(f"base must be [{classes}, {classes}]; got {list(base.shape)}.")
    if not (base.isfinite().all() and (base >= 0).all()):
        raise ValueError("base must be finite and not negative; it is not.")
    wrong = base.clone().fill_diagonal_(0.0)
    sums = wrong.sum(1, keepdim=True)
    return torch.where(sums >= _SMALLEST, wrong / sums.clamp(min=_SMALLEST), uniform)


def _held_rate(noise_rate: float, classes: int) -> float:
    if not isinstance(noise_rate, (Real, Tensor)) or not 0 <= noise_rate <= 1:
        raise ValueError(f"noise_rate must be from 0 to 1; got {noise_rate!r}.")
    if classes == 2 and noise_rate >= 0.5:
        raise ValueError(
            "noise_rate must be less than 0.5 for 2 classes, as otherwise the other label is as "
            f"likely as the right one; got {noise_rate}."
        )
    return min(max(float(noise_rate), _RATES[0]), _RATES[1])
