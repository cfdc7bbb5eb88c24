"""Verified labels as codes: one integer for every sample, also for answers that name no class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptd_ext.utils.ids import as_tensor

IGNORED = -100  # the label of samples that do not count
_EXCLUDED = -1e4  # logit of a class that a review rules out; float16 holds it

# Codes of samples without a verified class.
UNREVIEWED, WRONG, NONE_OF_THEM = -1, -2, -3

_SMALLEST = 1e-30  # smallest divisor


def as_verified(verified: Any, n_samples: int, n_classes: int) -> Tensor:
    """Return the codes as int64 [N]: the true class, or a code below zero.

    Args:
        verified: for each sample the class that a reviewer found; -1 where nobody has looked or the
            reviewer was unsure, -2 where the given label is wrong and the true one unknown, -3
            where no class is right. [N].
        n_samples: N.
        n_classes: C.
    """
    codes = as_tensor(verified, "verified")
    if codes.is_floating_point() or codes.is_complex() or codes.dtype is torch.bool:
        raise TypeError(f"verified must be integers; got {codes.dtype}.")
    if codes.shape != (n_samples,):
        raise ValueError(f"verified must be [{n_samples}]; got {list(codes.shape)}.")
    codes = codes.long()
    wrong = (codes < NONE_OF_THEM) | (codes >= n_classes)
    if wrong.any():
        raise ValueError(
            f"verified must be from {NONE_OF_THEM} to {n_classes - 1}; got "
            f"{int(codes[wrong][0])} at sample {int(wrong.nonzero()[0])}."
        )
    return codes


def fix_posterior(posterior: Tensor, labels: Tensor, verified: Tensor) -> Tensor:
    """P(true class | x, given label) with what reviewers found, [N, C].

    A verified class has probability one. Where the given label is wrong and the true one unknown,
    its class is left out and the others are normalised. Where no class is right, the row is zero.

    Args:
        posterior: before the review, [N, C].
        labels: the given labels, [N].
        verified: codes as of :func:`as_verified`, [N].
    """
    classes = torch.arange(posterior.shape[1], device=posterior.device)
    others = torch.where(classes == labels[:, None], 0.0, posterior)
    total = others.sum(1, keepdim=True)
    # Where the model leaves no other class any probability, all are equally likely.
    others = torch.where(total > _SMALLEST, others, (classes != labels[:, None]).to(posterior))
    others = others / others.sum(1, keepdim=True).clamp(min=_SMALLEST)
    code = verified[:, None]
    known = (classes == code).to(posterior)
    found = torch.where(code >= 0, known, torch.where(code == WRONG, others, posterior))
    return torch.where(code == NONE_OF_THEM, torch.zeros_like(found), found)


def restrict(logits: Tensor, labels: Tensor, verified: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels and a loss that make a forward loss that of verified labels.

    With A the classes that a review leaves possible, the forward loss of the logits returned is
    −log Σ_A g_i T_iȳ / Σ_A g_i, and the loss returned −log Σ_A g_i: together −log Σ_A g_i T_iȳ. For
    a verified class y that is −log g_y − log T_yȳ. Samples of none of the classes get the label
    :data:`IGNORED` and no loss.

    Args:
        logits: [N, C].
        labels: the given labels, [N].
        verified: codes as of :func:`as_verified`, [N].

    Returns:
        The logits, [N, C]; the labels, [N]; and the loss of each sample, [N].
    """
    classes, code = torch.arange(logits.shape[1], device=logits.device), verified[:, None]
    excluded = torch.where(
        code >= 0, classes != code, (code == WRONG) & (classes == labels[:, None])
    )
    restricted = logits.masked_fill(excluded, _EXCLUDED)
    loss = logits.logsumexp(1) - restricted.logsumexp(1)
    return restricted, labels.masked_fill(verified == NONE_OF_THEM, IGNORED), loss
