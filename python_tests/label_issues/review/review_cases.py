"""Findings on labels whose true classes are known, and reviews of them."""

from __future__ import annotations

import numpy as np

from ptd_ext.engine.rows.labels import GivenLabels
from ptd_ext.label_issues import Answer
from ptd_ext.label_issues.findings import LabelIssues, judge

NAMES = np.array(["cat", "dog", "owl"])


def judged(rows=600, noise=0.3, seed=0, **options) -> tuple[LabelIssues, np.ndarray]:
    """Findings by a model whose probabilities are too sharp, and the true classes."""
    rng = np.random.default_rng(seed)
    true = rng.integers(3, size=rows)
    wrong = rng.random(rows) < noise
    given = np.where(wrong, (true + rng.integers(1, 3, size=rows)) % 3, true)
    scores = 2.0 * np.eye(3)[true] + 2.0 * np.eye(3)[given] + rng.normal(size=(rows, 3))
    posterior = np.exp(2 * scores)
    posterior = (posterior / posterior.sum(1, keepdims=True)).astype(np.float32)
    transition = np.full((3, 3), noise / 2) + (1 - 1.5 * noise) * np.eye(3)
    ids = np.array([f"r{row}" for row in range(rows)])
    labels = GivenLabels(given, NAMES)
    return judge(posterior, labels, transition, ids=ids, **options), true


def reviews(found: LabelIssues, true: np.ndarray, rows: np.ndarray) -> dict[str, object]:
    """The true labels of rows at these positions, by id."""
    return {str(found.ids[row]): str(NAMES[true[row]]) for row in rows}


def unsure(found: LabelIssues, rows: np.ndarray) -> dict[str, object]:
    return {str(found.ids[row]): Answer.UNSURE for row in rows}
