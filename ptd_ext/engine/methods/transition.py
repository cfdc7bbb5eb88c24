"""Training with a transition matrix: CE, Forward, Reweight, T-Revision and PTD.

All are PTD: a class-dependent matrix is T(x) of one part, and cross entropy is the forward loss of
the identity.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ptd_ext.engine.methods.transition_estimate import estimate_transition, store_estimate
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.optim import Schedule
from ptd_ext.engine.stage.stage import Batch, Stage, StageContext
from ptd_ext.ops.functional import forward_loss, noisy_posterior, reweight_loss
from ptd_ext.ops.layout import prepare_parts
from ptd_ext.transition.verified import IGNORED, UNREVIEWED, restrict

Loss = Literal["forward", "reweight"]


class CrossEntropy(Stage):
    """The forward loss with the identity as T, without smoothing."""

    identity: Tensor  # [C, C]

    def begin(self, context: StageContext) -> None:
        """Allocate the identity."""
        self.register_buffer("identity", torch.eye(context.data.n_classes), persistent=False)

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """−log g_ȳ."""
        return [forward_loss(z, batch.labels, None, self.identity, smoothing=0.0) for z in logits]


class WarmUp(CrossEntropy):
    """Cross entropy for a few epochs; P(given label | x) is averaged over the last of them."""

    pred_probs: Tensor  # [N, C], summed up epoch by epoch

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, "warm up")
        self.epochs = settings.warm_up_epochs
        self.averaged = min(settings.pred_probs_epochs, self.epochs)

    def begin(self, context: StageContext) -> None:
        """Allocate the sum of P(given label | x)."""
        super().begin(context)
        shape = (context.data.train_size, context.data.n_classes)
        self.register_buffer("pred_probs", torch.zeros(shape))

    def end_epoch(self, context: StageContext, epoch: int) -> None:
        """Add P(given label | x) of the training samples."""
        if epoch >= self.epochs - self.averaged:
            logits = context.predict(context.networks[0], "train").logits
            self.pred_probs += logits.softmax(-1) / self.averaged

    def finish(self, context: StageContext) -> None:
        """Store P(given label | x) and the accuracy."""
        context.outputs.pred_probs = self.pred_probs
        share = context.best.scores.validation_accuracy / 100
        context.outputs.warm_up_accuracy = torch.tensor(share, device=context.device)


class TrainWithTransition(Stage):
    """Training with T(x), which is estimated from the warmed-up network."""

    weights: Tensor  # h(x), [N, R]
    parts: Tensor  # P, [R, C, C]
    verified: Tensor | None = None  # codes of what reviewers found, [N]

    def __init__(self, settings: Settings, loss: Loss) -> None:
        super().__init__(settings)
        self.loss: Loss = loss
        warm = 0 <= settings.rate < settings.fresh_from
        if settings.start != "auto":
            warm = settings.start == "warm"
        self.start = "best" if warm else "fresh"
        self.slack: nn.Parameter | None = None

    def begin(self, context: StageContext) -> None:
        """Estimate T(x), unless an earlier stage, or this one before a resume, has done so."""
        if context.outputs.estimate is None:
            store_estimate(context, estimate_transition(context, self.settings))
        transition = context.outputs.estimated()
        self.register_buffer("weights", transition.weights, persistent=False)
        self.register_buffer("parts", prepare_parts(transition.parts), persistent=False)
        self.verified = context.data.verified

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """The forward loss, or cross entropy with weights β, which are detached.

        Of a row whose true class y is verified it is −log g_y T_yȳ(x), or cross entropy with y.
        """
        weights = self.weights[batch.ids]
        if self.verified is None:
            return [self._loss(z, batch.labels, weights, self.slack) for z in logits]
        known = self.verified[batch.ids]
        return [self._loss_of_verified(z, batch.labels, weights, known) for z in logits]

    def _loss_of_verified(
        self, z: Tensor, labels: Tensor, weights: Tensor, verified: Tensor
    ) -> Tensor:
        restricted, kept, given = restrict(z, labels, verified)
        counted = kept != IGNORED
        if self.loss == "reweight":  # verified rows have no importance, but a class
            restricted, kept = z, labels.masked_fill(verified != UNREVIEWED, IGNORED)
        loss = self._loss(restricted, kept, weights, self.slack) * (kept != IGNORED).sum()
        return (loss + torch.where(counted, given, 0.0).sum()) / counted.sum().clamp(min=1)

    def _loss(
        self,
        z: Tensor,
        labels: Tensor,
        weights: Tensor,
        slack: Tensor | None,
        importance: Literal["detached", "attached"] = "detached",
    ) -> Tensor:
        if self.loss == "forward":
            return forward_loss(z, labels, weights, self.parts, slack)
        cap = self.settings.max_importance or None
        return reweight_loss(
            z, labels, weights, self.parts, slack, importance=importance, max_importance=cap
        )

    def noisy_posterior(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        """T(x)ᵀg."""
        return noisy_posterior(logits, weights, self.parts, self.slack)


class Revision(TrainWithTransition):
    """Learning ΔT together with the network, from the best model of the stage before."""

    slack: nn.Parameter  # ΔT, [C, C]

    def __init__(self, settings: Settings, loss: Loss) -> None:
        super().__init__(settings, loss)
        self.name = "revise"
        self.keep_start = True
        self.epochs = settings.revision_epochs
        self.schedule = Schedule("adam", settings.revision_lr)
        self.start = "best"

    def begin(self, context: StageContext) -> None:
        """Initialise ΔT to zero."""
        super().begin(context)
        self.slack = nn.Parameter(torch.zeros(context.data.n_classes, context.data.n_classes))

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], Schedule]]:
        """ΔT, with its own learning rate."""
        return [([self.slack], Schedule("adam", self.settings.slack_lr))]

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """The loss with T(x) + ΔT.

        A detached β gives ΔT no gradient, and an attached one has a spurious minimum at g_ȳ → 0. By
        default, ΔT learns by the forward likelihood, which does not update the network.
        """
        if self.loss == "forward":
            return super().losses(batch, logits)
        weights, labels = self.weights[batch.ids], batch.labels
        (z,) = logits
        if self.settings.slack_loss == "own":
            return [self._loss(z, labels, weights, self.slack, "attached")]
        network = self._loss(z, labels, weights, self.slack.detach())
        return [network + forward_loss(z.detach(), labels, weights, self.parts, self.slack)]

    def finish(self, context: StageContext) -> None:
        """Store ΔT of the best model."""
        context.outputs.estimated().slack = context.best.stage_parameters["slack"]

    def figures(self) -> dict[str, float]:
        """The largest entry of |ΔT|."""
        return {"slack": self.slack.detach().abs().max().item()}
