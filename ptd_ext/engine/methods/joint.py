"""Joint optimisation of network and labels: predictions of the network replace the labels.

The first stage learns the labels, with a learning rate high enough that the network cannot
memorise wrong ones; the second trains a fresh network on them.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.optim import Schedule
from ptd_ext.engine.stage.stage import Batch, Stage, StageContext


def log_posterior(logits: Tensor) -> Tensor:
    """Log g, at least in float32."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def soft_cross_entropy(log_g: Tensor, soft: Tensor) -> Tensor:
    """−mean Σ_c s_c·log g_c."""
    return -(soft * log_g).sum(-1).mean()


def joint_loss(log_g: Tensor, soft: Tensor, alpha: float, beta: float) -> Tensor:
    """−mean Σ_c s_c·log g_c + α·KL(uniform ‖ ḡ) + β·mean entropy(g), ḡ the mean of g.

    If labels follow the network, predicting one class for all samples has the lowest cross entropy;
    the term with α prevents that. The term with β moves soft labels towards one-hot ones.
    """
    samples, classes = log_g.shape
    # log ḡ by logsumexp: a class that no sample has keeps a finite loss, and a gradient.
    log_mean = log_g.logsumexp(0) - math.log(samples)
    divergence = -math.log(classes) - log_mean.mean()
    entropy = -(log_g.exp() * log_g).sum(-1).mean()
    return soft_cross_entropy(log_g, soft) + alpha * divergence + beta * entropy


class JointLabels(Stage):
    """Training on labels that, from `joint_soft_from` on, are mean predictions of recent epochs."""

    soft: Tensor  # labels, [N, C]
    recent: Tensor  # predictions of the last epochs, a ring [joint_average, N, C]
    noisy: Tensor  # labels as given, [N]

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, "relabel")
        self.epochs = settings.joint_epochs
        self.schedule = Schedule.of(
            settings, optimiser="sgd", lr=settings.joint_lr, shape="constant"
        )

    def begin(self, context: StageContext) -> None:
        """Start from the given labels."""
        noisy = context.data.train_labels
        given = F.one_hot(noisy, context.data.n_classes).float()
        self.register_buffer("noisy", noisy, persistent=False)
        self.register_buffer("soft", given)
        # A sample that an epoch leaves out still has a distribution in its slot.
        self.register_buffer("recent", given.repeat(self.settings.joint_average, 1, 1))

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """The joint loss; predictions are stored for the labels of later epochs."""
        (z,) = logits
        log_g = log_posterior(z)
        slot = self.recent[batch.epoch % self.settings.joint_average]
        slot.index_copy_(0, batch.ids, log_g.detach().exp().to(slot.dtype))
        soft = self.soft[batch.ids]
        return [joint_loss(log_g, soft, self.settings.joint_alpha, self.settings.joint_beta)]

    def end_epoch(self, context: StageContext, epoch: int) -> None:
        """Update the labels for the next epoch."""
        if epoch + 1 >= self.settings.joint_soft_from:
            filled = min(epoch + 1, self.settings.joint_average)
            self.soft.copy_(self.recent[:filled].mean(0))

    def finish(self, context: StageContext) -> None:
        """Store the labels."""
        context.outputs.soft_labels = self.soft

    @torch.no_grad()
    def figures(self) -> dict[str, float]:
        """The share of samples whose most probable label differs from the given one."""
        return {"relabelled": (self.soft.argmax(-1) != self.noisy).float().mean().item()}


class JointFinal(Stage):
    """Training of a fresh network on the labels of :class:`JointLabels`."""

    soft: Tensor  # [N, C]

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.epochs = settings.joint_final_epochs

    def begin(self, context: StageContext) -> None:
        """Read the labels."""
        self.register_buffer("soft", context.outputs.soft_labels, persistent=False)

    def losses(self, batch: Batch, logits: list[Tensor]) -> list[Tensor]:
        """Cross entropy with the soft labels."""
        return [soft_cross_entropy(log_posterior(z), self.soft[batch.ids]) for z in logits]
