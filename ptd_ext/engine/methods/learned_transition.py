"""Training with estimates of T(x) that need no anchors: neighbours, counts, learned parts."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ptd_ext.engine.methods.transition import Loss, TrainWithTransition
from ptd_ext.engine.methods.transition_estimate import anchor_options, store_estimate
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.optim import Schedule
from ptd_ext.engine.stage.stage import Batch, Stage, StageContext
from ptd_ext.engine.stage.state import SampleTransitions
from ptd_ext.ops.functional import noisy_posterior
from ptd_ext.transition.barrier import ClassBarrier, class_prior_of
from ptd_ext.transition.count_start import count_start
from ptd_ext.transition.em import TransitionEM
from ptd_ext.transition.estimate import EstimatedTransition, trusted_base
from ptd_ext.transition.estimators import ESTIMATORS
from ptd_ext.transition.learned_parts import fit_learned_parts
from ptd_ext.transition.verified import UNREVIEWED

_SPLITS = ("train", "validation")
_VANISHED = 1e-30  # smaller features cannot be scaled in float32


class TrainWithEstimator(TrainWithTransition):
    """Training with one matrix, by an entry of :data:`ptd_ext.transition.estimators.ESTIMATORS`."""

    def __init__(self, settings: Settings, loss: Loss, estimator: str) -> None:
        super().__init__(settings, loss)
        self.estimator = estimator

    def begin(self, context: StageContext) -> None:
        """Estimate the matrix, unless it was estimated before a resume."""
        if context.outputs.estimate is None:
            found = _estimated(context, self.estimator)
            matrix, prior = found.transition, found.class_prior
            store_estimate(context, SampleTransitions.one_matrix(matrix, prior, context.data))
        super().begin(context)


class EMCounts(Stage):
    """EM: a fresh network learns by the forward loss with T, which expected counts update.

    By default the noise rate is held between that of the warmed-up network's anchors and its error
    rate on noisy validation labels.
    """

    em: TransitionEM
    verified: Tensor | None = None  # codes of what reviewers found, [N]

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, "count")

    def check(self, data: TrainingData) -> None:
        """Check that a class prior has one share per class."""
        prior = class_prior_of(self.settings.class_prior)
        if isinstance(prior, Tensor) and len(prior) != data.n_classes:
            raise ValueError(
                f"class_prior must have {data.n_classes} shares, one per class; got {len(prior)}."
            )

    def begin(self, context: StageContext) -> None:
        """Initialise the counts from the base, at the noise rate of the warm-up."""
        outputs, data, s = context.outputs, context.data, self.settings
        if outputs.noise_rate is None or outputs.count_base is None:
            self._start(context)
        assert outputs.noise_rate is not None
        self.verified = data.verified
        self.em = TransitionEM(
            data.train_labels,
            outputs.noise_rate.item(),
            n_classes=data.n_classes,
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
            outputs.pred_probs,
            context.data.train_labels,
            error,
            hold_error=s.count_rate == "validation",
            **anchor_options(s),
        )
        base = start.base
        if s.count_base == "uniform":
            base = torch.ones_like(base)
        elif s.count_base != "anchors":
            base = trusted_base(_estimated(context, s.count_base).transition)
        known = context.data.noise_rate
        rate = start.noise_rate if known is None else known
        outputs.noise_rate = torch.tensor(rate, device=context.device)
        outputs.count_base = base.to(context.device)
        context.ranks.from_first([outputs.noise_rate, outputs.count_base])
        context.log.detail(str(start))

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """The forward loss with the current T, which the counts of the batch then update."""
        known = None if self.verified is None else self.verified[batch.ids]
        return [self.em(z, batch.labels, verified=known) for z in logits]

    def noisy_posterior(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        """The noisy posterior Tᵀg."""
        return noisy_posterior(logits, None, self.em.transition)

    def finish(self, context: StageContext) -> None:
        """Store T as the only part of all samples."""
        matrix, prior = self.em.transition, self.em.joint.sum(1)
        store_estimate(context, SampleTransitions.one_matrix(matrix, prior, context.data))

    @torch.no_grad()
    def figures(self) -> dict[str, float]:
        """The mean of the diagonal of T."""
        return {"diagonal": self.em.transition.diagonal().mean().item()}


class TrainWithLearnedParts(TrainWithTransition):
    """Training with T(x) of learned parts, from the network that learned the counts."""

    barrier: ClassBarrier

    def __init__(self, settings: Settings, loss: Loss) -> None:
        super().__init__(settings, loss)
        self.name = "parts"
        self.start = "best"
        self.epochs = max(1, round(settings.epochs * settings.learned_epochs))
        lr = settings.lr * settings.learned_lr
        self.schedule = Schedule.of(settings, lr=lr, shape="linear", late_beta1=0.9)

    def begin(self, context: StageContext) -> None:
        """Learn the parts while the network is frozen, unless they were learned before a resume."""
        s = self.settings
        if context.outputs.estimated().gate is None:
            store_estimate(context, self._learned(context))
        super().begin(context)
        labels, classes = context.data.train_labels, context.data.n_classes
        shares = labels.bincount(minlength=classes).float().cpu() / len(labels)
        prior = class_prior_of(s.class_prior)
        self.barrier = ClassBarrier(shares, prior, weight=s.barrier, prior_weight=s.prior_weight)

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """The loss with T(x), and the barrier."""
        found = super().losses(batch, logits)
        return [loss + self.barrier(z) for loss, z in zip(found, logits, strict=True)]

    def _learned(self, context: StageContext) -> SampleTransitions:
        """Learn parts, gate and weights; the validation samples, not trained on, are held out."""
        s, network, data = self.settings, context.networks[0], context.data
        context.outputs.feature_network = copy.deepcopy(network.state_dict())
        train = context.predict(network, "train", features=True)
        held_out = context.predict(network, "validation", features=True)
        size = len(train.logits)
        fit = fit_learned_parts(
            _without_vanished(torch.cat([train.features, held_out.features])),
            torch.cat([train.logits, held_out.logits]).softmax(-1),
            data.labels(),
            transition=context.outputs.estimated().parts[0],
            verified=_verified(data),
            n_parts=s.n_parts,
            n_components=s.gate_components,
            validation_mask=torch.arange(size + len(held_out.logits)) >= size,
            min_gain=s.min_gain,
            random_state=s.seed,
        )
        what = "one matrix kept" if fit.kept_start else f"{len(fit.parts)} parts learned"
        context.log.detail(
            f"{what}: held-out noisy labels gain {fit.gain:.4f} ± {fit.gain_error:.4f} nats each"
        )
        gate = {f"gate_{name}": tensor for name, tensor in fit.gate.tensors().items()}
        return SampleTransitions(
            fit.weights[:size], fit.weights[size:], fit.parts, class_prior=fit.class_prior, **gate
        )


def _verified(data: TrainingData) -> Tensor | None:
    """What reviewers found, with held-out rows as nobody has looked at them, [N + M]."""
    if data.verified is None:
        return None
    return torch.cat([data.verified, torch.full_like(data.validation_labels, UNREVIEWED)])


def _without_vanished(features: Tensor) -> Tensor:
    """Features with zeros in place of values that weight decay has made vanish."""
    return features.masked_fill(features.abs() < _VANISHED, 0.0)


def _estimated(context: StageContext, name: str) -> EstimatedTransition | TransitionEM:
    """T by an estimator that needs no more than a warm-up provides, with its default options.

    It sees training and validation samples.
    """
    data, network = context.data, context.networks[0]
    inputs: dict[str, Any] = {"n_classes": data.n_classes}
    for need in ESTIMATORS[name].needs:
        if need == "noisy_labels":
            inputs[need] = data.labels()
        elif need == "features":
            inputs[need] = _features(context)
        else:
            logits = [context.predict(network, split).logits for split in _SPLITS]
            inputs[need] = torch.cat(logits).softmax(-1)
    return ESTIMATORS[name](**inputs)


def _features(context: StageContext) -> Tensor:
    """Rows of numbers themselves; for other inputs the features of the network."""
    data, network = context.data, context.networks[0]
    if data.is_table:
        splits = (data.train, data.validation)
        rows = [s.fetch(torch.arange(len(s), device=s.device), context.device) for s in splits]
    else:
        rows = [context.predict(network, split, features=True).features for split in _SPLITS]
    return torch.cat(rows)
