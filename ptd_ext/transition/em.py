"""One transition matrix, estimated by running counts while a network trains through it.

The posterior of the true label, q = P(Y | x, ȳ), estimates which class a noisy label came from. The
counts Σ q e_ȳᵀ over recent samples, normalised by row, are the transition matrix (expectation
maximisation, one batch at a time). This needs no anchors and no second pass.

A network and a free noise rate that are learned together drift to too little noise. Therefore the
diagonal is held at a rate that is known beforehand, and only the off-diagonal shape is learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from ptd_ext.ops.checks import check_tensors
from ptd_ext.ops.functional import clean_posterior, forward_loss
from ptd_ext.ops.layout import prepare_parts
from ptd_ext.transition.barrier import BARRIER, PRIOR_WEIGHT, ClassBarrier, ClassPrior
from ptd_ext.transition.count_start import count_start
from ptd_ext.transition.estimate import EstimatedTransition, TransitionSummary, off_diagonal
from ptd_ext.transition.verified import IGNORED, NONE_OF_THEM, restrict
from ptd_ext.utils.arguments import check_integer, check_share
from ptd_ext.utils.ids import as_labels, as_tensor

BASE_SHARE = 0.4  # default, also of the settings

_RATES = (0.02, 0.8)  # a rate below learns nothing, one above leaves no diagonal
_SAMPLES_PER_ENTRY = 50  # samples in the window for each entry of the matrix
_SMALLEST = 1e-30  # smallest divisor


class TransitionEM(nn.Module):
    r"""The forward loss through a matrix T that it estimates itself, from the first step on.

    Three calls in your training loop::

        em = ptd_ext.TransitionEM(noisy_labels, noise_rate=0.4)  # or from_pred_probs(…)
        loss = em(network(x), y)        # every step; backward and optimiser step as usual
        print(em.summary())             # at the end, or em.transition, [C, C]

    With ρ the noise rate and S the running mean of q e_ȳᵀ::

        off = (1 − base_share) · rownorm(S without its diagonal) + base_share · base
        rᵢ = min(ρ, 1 / (1 + maxₖ offᵢₖ))              the diagonal stays the largest entry
        T = diag(1 − r) + r · off
        loss = forward loss through T + a term that keeps classes from vanishing

    The last term is barrier · Σ p_c · relu(log(p_c / 2) − log ḡ_c), where ḡ is the mean prediction
    of the batch and p the shares of the noisy labels, or prior_weight · KL(π ‖ ḡ) for a known class
    prior π. Counts are taken in training mode only, without a host synchronisation.

    Args:
        noisy_labels: labels of the whole training set, [N].
        noise_rate: ρ, clamped to 0.02 … 0.8. :meth:`from_pred_probs` finds one. One minus the
            best accuracy of a network on noisy validation data, and the `noise_rate` of
            :func:`ptd_ext.transition.neighbour_transition`, are somewhat too high.
        n_classes: C; by default the largest label plus one.
        class_prior: shares of the clean classes: None for unknown, "uniform", or [C].
        barrier: weight of that term where no prior is known.
        prior_weight: weight of the divergence from a known prior.
        base: a matrix [C, C] that the off-diagonal of T starts from and is drawn to, such as
            `base()` of :func:`ptd_ext.transition.neighbour_transition`'s result; uniform by
            default, which needs no network. :meth:`from_pred_probs` takes it from anchors.
        base_share: share of the base in the off-diagonal of T.
        hold_diagonal: whether ρ is held. Otherwise the counts of each row give its
            rate, which drifts to too little noise while the network learns.
        window: number of recent samples in the counts; by default min(N/4, 50·C²).
        over_ranks: sum counts over the ranks of `torch.distributed` where it is initialised, for
            loops in which the ranks have different batches.

    Examples:
        >>> labels = torch.arange(60) % 3
        >>> criterion = ptd_ext.TransitionEM(labels, noise_rate=0.2)
        >>> logits = torch.zeros(60, 3, requires_grad=True)
        >>> criterion(logits, labels).backward()
        >>> criterion.transition.shape
        torch.Size([3, 3])
    """

    joint: Tensor  # S, [C, C]: the running mean of q e_ȳᵀ, which sums to one
    start_base: Tensor  # [C, C], rows of the off-diagonal that T starts from
    held_rate: Tensor  # ρ, []
    seen: Tensor  # [], samples so far

    def __init__(
        self,
        noisy_labels: Any,
        noise_rate: float,
        *,
        n_classes: int | None = None,
        class_prior: ClassPrior = None,
        barrier: float = BARRIER,
        prior_weight: float = PRIOR_WEIGHT,
        base: Any = None,
        base_share: float = BASE_SHARE,
        hold_diagonal: bool = True,
        window: int | None = None,
        over_ranks: bool = True,
    ) -> None:
        super().__init__()
        labels, n_classes = as_labels(noisy_labels, n_classes)
        if not len(labels):
            raise ValueError("noisy_labels must hold the labels of the training set; got none.")
        window = None if window is None else check_integer(window, "window")
        self.n_classes = n_classes
        self.n_samples = len(labels)
        self.window = window or max(1, min(len(labels) // 4, _SAMPLES_PER_ENTRY * n_classes**2))
        self.base_share = check_share(base_share, "base_share")
        self.hold_diagonal = bool(hold_diagonal)
        self.over_ranks = over_ranks
        shares = labels.bincount(minlength=n_classes).float() / len(labels)
        self.barrier = ClassBarrier(
            shares.cpu(), class_prior, weight=barrier, prior_weight=prior_weight
        )
        self.register_buffer("held_rate", torch.tensor(_held_rate(noise_rate, n_classes)))
        self.register_buffer("start_base", off_diagonal(_checked_base(base, n_classes)))
        rows = torch.lerp(torch.eye(n_classes), self.start_base, self.held_rate)
        self.register_buffer("joint", shares.cpu()[:, None] * rows)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    @classmethod
    def from_pred_probs(
        cls, pred_probs: Any, noisy_labels: Any, validation_error: float, **options: Any
    ) -> TransitionEM:
        """A better start, from a network trained by cross entropy.

        The noise rate is the mean of the anchors' and of the error on held-out noisy labels, which
        err on opposite sides. The base is half the anchors' matrix and half uniform, and all
        uniform where anchors find that half of the labels are wrong.

        Args:
            pred_probs: P(Ȳ | x) of the training samples by that network, [N, C].
            noisy_labels: labels of the training samples, [N].
            validation_error: the share of held-out noisy labels that the network misses.
            **options: other arguments of the class.
        """
        start = count_start(pred_probs, noisy_labels, validation_error)
        options = {"n_classes": len(start.base), "base": start.base, **options}
        return cls(noisy_labels, start.noise_rate, **options)

    def forward(
        self,
        logits: Tensor,
        noisy_labels: Tensor,
        *,
        verified: Tensor | None = None,
        ignore_index: int = -100,
    ) -> Tensor:
        """The mean loss of a batch, [N, C] logits and [N] labels; in training mode it counts too.

        The counts use T as it is in this loss. Samples labelled `ignore_index` do not count.

        Args:
            logits: [N, C].
            noisy_labels: [N].
            verified: what reviewers found, [N]: the true class; -1 where nobody has looked, -2
                where the given label is wrong and the true one unknown, -3 where no class is right.
                Verified samples are counted as what they are, and their loss is −log g_y T_yȳ.
            ignore_index: the label of samples that do not count.
        """
        check_tensors(logits=logits, noisy_labels=noisy_labels)
        if logits.dim() != 2 or logits.shape[1] != self.n_classes:
            raise ValueError(f"logits must be [N, {self.n_classes}]; got {list(logits.shape)}.")
        if not len(logits):
            raise ValueError("logits must have at least one row; got none.")
        rows = logits if logits.dtype is torch.float64 else logits.float()
        transition = self.transition.to(rows.dtype)
        if verified is None:
            loss, counts = _EMPass.apply(rows, noisy_labels, transition, self.barrier, ignore_index)
        else:
            loss, counts = self._with_verified(rows, noisy_labels, verified, ignore_index)
        if self.training:
            self._count(counts)
        return loss

    def _with_verified(
        self, logits: Tensor, labels: Tensor, verified: Tensor, ignore_index: int
    ) -> tuple[Tensor, Tensor]:
        """Loss and counts, in plain torch."""
        transition = self.transition.to(logits.dtype)
        known = verified.masked_fill(labels == ignore_index, NONE_OF_THEM)
        restricted, kept, given = restrict(logits, labels, known)
        losses = forward_loss(restricted, kept, None, transition, reduction="none")
        losses = torch.where(kept == IGNORED, 0.0, losses + given)
        counted = (kept != IGNORED).sum().clamp(min=1)
        penalty = self.barrier(logits)
        with torch.no_grad():
            posterior = clean_posterior(restricted, kept, None, transition)
            chosen = kept[:, None] == torch.arange(self.n_classes, device=logits.device)
            counts = posterior.T @ chosen.to(posterior.dtype)
        return losses.sum() / counted + penalty, counts

    @property
    def transition(self) -> Tensor:
        """T from the counts so far, [C, C]."""
        start = self.start_base
        off = torch.lerp(off_diagonal(self.joint, start), start, self.base_share)
        rate = self.held_rate
        if not self.hold_diagonal:
            counts = self.joint.sum(1)
            rate = (counts - self.joint.diagonal()) / counts.clamp(min=_SMALLEST)
        rate = torch.minimum(rate, 1 / (1 + off.amax(1)))
        return prepare_parts(torch.addcmul(torch.diag(1 - rate), rate[:, None], off))

    @property
    def parts(self) -> Tensor:
        """T as the only part, [1, C, C]."""
        return self.transition[None]

    @property
    def weights(self) -> None:
        """None: the only part has all the weight."""
        return None

    @property
    def class_prior(self) -> Tensor:
        """Shares of the true classes, [C]."""
        return self.joint.sum(1)

    @property
    def noise_rate(self) -> float:
        """The share of wrong labels, Σ class_prior_i · (1 − T_ii)."""
        return self.estimate().noise_rate

    def estimate(self) -> EstimatedTransition:
        """A snapshot of T and the class prior."""
        return EstimatedTransition.one_matrix(self.transition, self.class_prior, self.n_samples)

    def base(self) -> Tensor:
        """The off-diagonal rows of T that are clear, [C, C]; the other rows are uniform."""
        return self.estimate().base()

    def __repr__(self) -> str:
        return f"TransitionEM(n_classes={self.n_classes}, held_rate={self.held_rate.item():.3g})"

    def _repr_html_(self) -> str:
        return self.estimate()._repr_html_()

    def summary(self, class_names: Sequence[str] | None = None) -> TransitionSummary:
        """The noise rate, the diagonal, and caveats about them."""
        return self.estimate().summary(class_names)

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
        penalty, slope = barrier.at_mean(posterior.mean(0), len(logits))
        pull = posterior * (slope - (posterior @ slope)[:, None])
        ctx.save_for_backward(torch.add(difference / counted, pull, alpha=1 / len(logits)))
        ctx.mark_non_differentiable(counts)
        return total.detach() / counted + penalty, counts

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return grad * gradient, None, None, None, None


def _checked_base(base: Any, n_classes: int) -> Tensor:
    if base is None:
        return torch.ones(n_classes, n_classes)
    base = as_tensor(base, "base").float().cpu()
    if base.shape != (n_classes, n_classes):
        raise ValueError(f"base must be [{n_classes}, {n_classes}]; got {list(base.shape)}.")
    if not (base.isfinite().all() and (base >= 0).all()):
        raise ValueError("base must be finite and not negative; it is not.")
    return base


def _held_rate(noise_rate: float, n_classes: int) -> float:
    rate = check_share(noise_rate, "noise_rate")
    if n_classes == 2 and rate >= 0.5:
        raise ValueError(
            "noise_rate must be less than 0.5 for 2 classes, as otherwise the other label is as "
            f"likely as the right one; got {noise_rate}."
        )
    return min(max(rate, _RATES[0]), _RATES[1])
