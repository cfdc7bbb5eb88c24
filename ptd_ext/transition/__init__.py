"""Estimates of T(x): their results, and the estimators that few users need.

`find_anchors`, `fit_part_transitions`, `fit_learned_parts`, `PartTransition` and `TransitionEM` are
in `ptd_ext` itself.
"""

from ptd_ext.transition.anchors import Anchors, class_transition
from ptd_ext.transition.estimate import EstimatedTransition, TransitionSummary
from ptd_ext.transition.fit import Diagnosis, PartFit
from ptd_ext.transition.gate import LinearGate
from ptd_ext.transition.learned_parts import LearnedParts
from ptd_ext.transition.metrics import approximation_error
from ptd_ext.transition.neighbours import NeighbourTransition, neighbour_transition
from ptd_ext.transition.pred_probs import combine_pred_probs

__all__ = [
    "Anchors",
    "Diagnosis",
    "EstimatedTransition",
    "LearnedParts",
    "LinearGate",
    "NeighbourTransition",
    "PartFit",
    "TransitionSummary",
    "approximation_error",
    "class_transition",
    "combine_pred_probs",
    "neighbour_transition",
]
