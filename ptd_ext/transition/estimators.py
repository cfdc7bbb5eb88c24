"""The estimators of T(x), one entry each, for documentation, settings and tests to iterate over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ptd_ext.transition.anchors import class_transition, find_anchors
from ptd_ext.transition.em import TransitionEM
from ptd_ext.transition.estimate import EstimatedTransition
from ptd_ext.transition.fit import PartFit, fit_part_transitions
from ptd_ext.transition.learned_parts import fit_learned_parts
from ptd_ext.transition.neighbours import neighbour_transition


@dataclass(frozen=True)
class Estimator:
    """An estimator of T(x).

    Attributes:
        name: its name in :data:`ESTIMATORS`.
        function: its full name.
        needs: names of the inputs that it needs.
        help: what it estimates, in one line.
        fit: takes the inputs as keyword arguments, and returns the estimate.
        takes: names of inputs that it can do without.
    """

    name: str
    function: str
    needs: tuple[str, ...]
    help: str
    fit: Callable[..., EstimatedTransition | TransitionEM]
    takes: tuple[str, ...] = ()

    def missing(self, inputs: Iterable[str]) -> list[str]:
        """The inputs that the estimator needs beyond these; it is usable if there are none."""
        return [name for name in self.needs if name not in set(inputs)]

    def __call__(self, **inputs: Any) -> EstimatedTransition | TransitionEM:
        """Estimate T(x) from those of the inputs that the estimator needs or takes."""
        if missing := self.missing(inputs):
            raise ValueError(
                f"{self.function} needs {', '.join(self.needs)}; {', '.join(missing)} is missing."
            )
        used = (*self.needs, *self.takes)
        return self.fit(**{name: value for name, value in inputs.items() if name in used})


def _from_anchors(pred_probs: Any) -> EstimatedTransition:
    return class_transition(pred_probs, find_anchors(pred_probs))


def _parts_from_anchors(weights: Any, pred_probs: Any) -> PartFit:
    return fit_part_transitions(weights, pred_probs, find_anchors(pred_probs))


_ALL = (
    Estimator(
        "anchors",
        "ptd_ext.transition.class_transition",
        ("pred_probs",),
        "one matrix, from samples that almost certainly belong to a class",
        _from_anchors,
    ),
    Estimator(
        "part anchors",
        "ptd_ext.fit_part_transitions",
        ("weights", "pred_probs"),
        "a matrix for each part, from the anchors and their weights (the paper's method)",
        _parts_from_anchors,
    ),
    Estimator(
        "neighbours",
        "ptd_ext.transition.neighbour_transition",
        ("features", "noisy_labels"),
        "one matrix, from the labels of nearest neighbours, without a network",
        neighbour_transition,
        takes=("n_classes",),
    ),
    Estimator(
        "counts",
        "ptd_ext.TransitionEM",
        ("noisy_labels", "noise_rate"),
        "one matrix, from counts that run while a network trains through it",
        TransitionEM,
        takes=("n_classes",),
    ),
    Estimator(
        "learned parts",
        "ptd_ext.fit_learned_parts",
        ("features", "clean_probs", "noisy_labels"),
        "parts and their gate, by the likelihood of the noisy labels",
        fit_learned_parts,
    ),
)
ESTIMATORS = {each.name: each for each in _ALL}
"""All estimators of T(x) by name."""

AFTER_WARM_UP = tuple(
    name
    for name, each in ESTIMATORS.items()
    if not each.missing(("pred_probs", "features", "noisy_labels"))
)
"""Names of those that need nothing but a network trained on the noisy labels, and the rows."""
