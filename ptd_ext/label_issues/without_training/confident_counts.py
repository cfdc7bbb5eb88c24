"""One transition matrix from out-of-fold probabilities, by confident counts."""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.transition.estimate import EstimatedTransition


@torch.no_grad()
def confident_transition(pred_probs: Tensor, labels: Tensor) -> EstimatedTransition:
    """Estimate T from P(given label | x) of rows that the model was not trained on.

    The threshold of a class is its mean probability over the rows with that given label. A row
    counts for the most probable class whose threshold it reaches, if any (confident learning:
    Northcutt, Jiang and Chuang, 2021). The counts of each given label are scaled to its number of
    rows; T is these counts, normalised by true class. A class without counts has the row of the
    identity in T.

    Args:
        pred_probs: [N, C].
        labels: class indices of the given labels, [N].
    """
    classes = pred_probs.shape[1]
    given = torch.bincount(labels, minlength=classes).to(pred_probs.dtype)
    own = pred_probs.gather(1, labels[:, None])[:, 0]
    threshold = torch.zeros(classes, dtype=pred_probs.dtype).index_add_(0, labels, own)
    threshold = torch.where(given > 0, threshold / given.clamp(min=1), torch.inf)
    confident = pred_probs >= threshold
    best, true = torch.where(confident, pred_probs, -1.0).max(1)
    counted = best >= 0
    joint = torch.zeros(classes, classes, dtype=pred_probs.dtype)  # [true, given]
    ones = torch.ones(int(counted.sum()), dtype=pred_probs.dtype)
    joint.index_put_((true[counted], labels[counted]), ones, accumulate=True)
    columns = joint.sum(0)
    unseen = (columns == 0) & (given > 0)
    joint[unseen, unseen] = given[unseen]
    joint *= given / joint.sum(0).clamp(min=1)
    rows = joint.sum(1, keepdim=True)
    transition = torch.where(rows > 0, joint / rows.clamp(min=1e-30), torch.eye(classes).to(joint))
    return EstimatedTransition.one_matrix(transition, rows[:, 0] / len(labels), len(labels))
