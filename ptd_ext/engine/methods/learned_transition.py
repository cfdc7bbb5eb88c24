"""Training through a T(x) that is not read off anchors: neighbours, counts, learned parts."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.ops.functional import noisy_posterior
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.engine.optim import Schedule
from ptd_ext.train.engine.state import TransitionEstimate
from ptd_ext.train.methods.base import Batch, Stage, StageContext
from ptd_ext.train.methods.transition import Loss, Through
from ptd_ext.train.methods.transition_estimate import anchor_options, say_estimate
from ptd_ext.transition.barrier import ClassBarrier, class_prior_of
from ptd_ext.transition.count_start import count_start
from ptd_ext.transition.em import TransitionEM
from ptd_ext.transition.learned_parts import fit_learned_parts
from ptd_ext.transition.neighbours import NeighbourTransition, neighbour_transition

__all__ = ["Counting", "ThroughLearned", "ThroughNeighbours"]

_VANISHED = 1e-30  # below it no gate could tell features apart


class ThroughNeighbours(Through):
    """Train through one matrix from the labels of neighbours."""

    def begin(self, context: StageContext) -> None:
        """Estimate the matrix, unless that was done before a resume."""
        if context.outputs.transition is None:
            found, problem = _neighbours(context), context.problem
            sizes = problem.train_size, len(problem.validation_labels)
            estimate = TransitionEstimate.one_matrix(found.transition, found.class_prior, *sizes)
            context.ranks.from_first(estimate.tensors())
            context.outputs.transition = estimate
            say_estimate(context)
        super().begin(context)


class Counting(Stage):
    """Train a fresh network by the forward loss through one matrix, which its counts estimate.

    By default the noise rate is held between that of the warmed-up network's anchors and its error
    rate on noisy validation labels.
    """

    em: TransitionEM

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.name = "count"
        self.settings = settings
        self.epochs = settings.epochs
        self.batch_size = settings.batch_size
        self.schedule = Schedule.of(settings)

    def begin(self, context: StageContext) -> None:
        """Initialise the counts from the base, at the noise rate that the warm-up found."""
        outputs, problem, s = context.outputs, context.problem, self.settings
        if outputs.noise_rate is None or outputs.count_base is None:
            self._start(context)
        assert outputs.noise_rate is not None
        self.em = TransitionEM(
            problem.train_labels,
            outputs.noise_rate.item(),
            classes=problem.classes,
            class_prior=class_prior_of(s.class_prior),
            barrier=s.barrier,
            prior_weight=s.prior_weight,
            base=outputs.count_base,
            base_share=s.count_base_share,
            hold_diagonal=s.hold_diagonal,
            window=s.count_window or None,
            # Every rank computes the loss of the whole batch, so that all have the same counts.
            over_ranks=False,
        )

    def _start(self, context: StageContext) -> None:
        """Find the noise rate to hold and the base, on the first rank for all."""
        outputs, s = context.outputs, self.settings
        error = 1 - context.best.scores.validation_accuracy / 100
        start = count_start(
            outputs.posterior,
            context.problem.train_labels,
            error,
            hold_error=s.count_rate == "validation",
            **anchor_options(s),
        )
        base = start.base
        if s.count_base == "neighbours":
            base = _neighbours(context).base()
        elif s.count_base == "uniform":
            base = torch.ones_like(base)
        outputs.noise_rate = torch.tensor(start.noise_rate, device=context.device)
        outputs.count_base = base.to(context.device)
        context.ranks.from_first([outputs.noise_rate, outputs.count_base])
        context.log.say(str(start))

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """The forward loss through the current T, which the batch's counts then update."""
        return [self.em(z, batch.labels) for z in logits]

    def noisy_posterior(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        """The noisy posterior Tᵀg."""
        return noisy_posterior(logits, None, self.em.transition)

    def finish(self, context: StageContext) -> None:
        """Keep T as the one part of all samples."""
        sizes = context.problem.train_size, len(context.problem.validation_labels)
        prior = self.em.joint.sum(1)
        estimate = TransitionEstimate.one_matrix(self.em.transition, prior, *sizes)
        context.outputs.transition = estimate
        say_estimate(context)

    @torch.no_grad()
    def figures(self) -> dict[str, float]:
        """The mean of T's diagonal."""
        return {"diagonal": self.em.transition.diagonal().mean().item()}


class ThroughLearned(Through):
    """Train on through T(x) with learned parts, from the network that learned the counts."""

    barrier: ClassBarrier

    def __init__(self, settings: Settings, loss: Loss) -> None:
        super().__init__(settings, loss)
        self.name = "parts"
        self.start = "best"
        self.epochs = max(1, round(settings.epochs * settings.learned_epochs))
        lr = settings.lr * settings.learned_lr
        self.schedule = Schedule.of(settings, lr=lr, shape="linear", late_beta1=0.9)

    def begin(self, context: StageContext) -> None:
        """Learn the parts with the network frozen, unless that was done before a resume."""
        outputs, s = context.outputs, self.settings
        if outputs.estimated().gate is None:
            outputs.transition = self._learned(context)
            context.ranks.from_first(outputs.transition.tensors())
            say_estimate(context)
        super().begin(context)
        labels, classes = context.problem.train_labels, context.problem.classes
        shares = labels.bincount(minlength=classes).float().cpu() / len(labels)
        prior = class_prior_of(s.class_prior)
        self.barrier = ClassBarrier(shares, prior, weight=s.barrier, prior_weight=s.prior_weight)

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """The loss through T(x), and the barrier."""
        found = super().losses(batch, logits)
        return [loss + self.barrier(z) for loss, z in zip(found, logits, strict=True)]

    def _learned(self, context: StageContext) -> TransitionEstimate:
        """Parts, gate and weights; the validation samples, unseen in training, are held out."""
        s, network, problem = self.settings, context.networks[0], context.problem
        context.write_tensors("warm_up.pt", network.state_dict())
        train = context.predict(network, "train", features=True)
        held_out = context.predict(network, "validation", features=True)
        size = len(train.logits)
        fit = fit_learned_parts(
            _without_vanished(torch.cat([train.features, held_out.features])),
            torch.cat([train.logits, held_out.logits]).softmax(-1),
            torch.cat([problem.train_labels, problem.validation_labels]),
            transition=context.outputs.estimated().parts[0],
            n_parts=s.parts,
            components=s.gate_components,
            held_out=torch.arange(size + len(held_out.logits)) >= size,
            min_gain=s.min_gain,
            random_state=s.seed,
        )
        what = "one matrix is kept" if fit.kept_start else f"{len(fit.parts)} parts are learned"
        context.log.say(
            f"{what}: held-out noisy labels gain {fit.gain:.4f} ± {fit.gain_error:.4f} nats each"
        )
        gate = {f"gate_{name}": tensor for name, tensor in fit.gate.tensors().items()}
        return TransitionEstimate(
            fit.weights[:size], fit.weights[size:], fit.parts, class_prior=fit.class_prior, **gate
        )


def _without_vanished(features: Tensor) -> Tensor:
    """Features with zeros where weight decay has left next to nothing of them."""
    return features.masked_fill(features.abs() < _VANISHED, 0.0)


def _neighbours(context: StageContext) -> NeighbourTransition:
    """The estimate from neighbours' labels, over training and validation samples.

    Rows of numbers serve as features themselves; for other inputs the network's features are used.
    """
    problem = context.problem
    labels = torch.cat([problem.train_labels, problem.validation_labels])
    if len(problem.sample_shape) == 1 and problem.embedding is None:
        splits = (problem.train, problem.validation)
        rows = [s.fetch(torch.arange(len(s), device=s.device), context.device) for s in splits]
    else:
        network = context.networks[0]
        rows = [
            context.predict(network, split, features=True).features
            for split in ("train", "validation")
        ]
    return neighbour_transition(torch.cat(rows), labels, classes=problem.classes)
