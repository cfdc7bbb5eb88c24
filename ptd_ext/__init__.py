"""Learning from labels that are wrong in ways that depend on the instance."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from ptd_ext import _load

_load.load()

from ptd_ext.ops import _autograd, _fake, _row_ops, functional, reference  # noqa: E402

_fake.register_fakes()
_autograd.register_gradients()
_row_ops.register_row_ops()
# These two keep their short names: `import ptd_ext.functional` and `import ptd_ext.reference`.
sys.modules[f"{__name__}.functional"] = functional
sys.modules[f"{__name__}.reference"] = reference

from ptd_ext._C import build_info  # noqa: E402
from ptd_ext.ops.functional import (  # noqa: E402
    clean_posterior,
    forward_loss,
    noisy_posterior,
    project_transition,
    reweight_loss,
    transition_matrix,
)
from ptd_ext.ops.layout import prepare_parts  # noqa: E402
from ptd_ext.ops.simplex import simplex_projection, simplex_weights  # noqa: E402

if TYPE_CHECKING:  # at run time `__getattr__` imports these
    from ptd_ext.experiments.run.trained_run import TrainedRun
    from ptd_ext.label_issues.classifier import PTDClassifier
    from ptd_ext.label_issues.find import find_label_issues
    from ptd_ext.label_issues.findings import LabelIssues
    from ptd_ext.nmf.estimator import SimplexNMF
    from ptd_ext.nn import ForwardLoss, ReweightLoss
    from ptd_ext.noise.generate import instance_dependent_noise, pairwise_noise, symmetric_noise
    from ptd_ext.noise.labels import LabelNoise
    from ptd_ext.transition.anchors import Anchors, class_transition, find_anchors
    from ptd_ext.transition.em import TransitionEM
    from ptd_ext.transition.estimate import EstimatedTransition, TransitionSummary
    from ptd_ext.transition.fit import Diagnosis, PartFit, fit_part_transitions
    from ptd_ext.transition.gate import LinearGate
    from ptd_ext.transition.learned_parts import LearnedParts, fit_learned_parts
    from ptd_ext.transition.metrics import approximation_error
    from ptd_ext.transition.model import PartTransition
    from ptd_ext.transition.neighbours import NeighbourTransition, neighbour_transition
    from ptd_ext.transition.pred_probs import combine_pred_probs

__version__ = build_info()["version"]

__all__ = [
    "Anchors",
    "Diagnosis",
    "EstimatedTransition",
    "ForwardLoss",
    "LabelIssues",
    "LabelNoise",
    "LearnedParts",
    "LinearGate",
    "NeighbourTransition",
    "PTDClassifier",
    "PartFit",
    "PartTransition",
    "ReweightLoss",
    "SimplexNMF",
    "TrainedRun",
    "TransitionEM",
    "TransitionSummary",
    "approximation_error",
    "build_info",
    "class_transition",
    "clean_posterior",
    "combine_pred_probs",
    "find_anchors",
    "find_label_issues",
    "fit_learned_parts",
    "fit_part_transitions",
    "forward_loss",
    "instance_dependent_noise",
    "neighbour_transition",
    "noisy_posterior",
    "pairwise_noise",
    "prepare_parts",
    "project_transition",
    "reweight_loss",
    "simplex_projection",
    "simplex_weights",
    "symmetric_noise",
    "transition_matrix",
]

# Imported when one of the names is first used.
_LATER = {
    "experiments.run.trained_run": ("TrainedRun",),
    "label_issues.classifier": ("PTDClassifier",),
    "label_issues.find": ("find_label_issues",),
    "label_issues.findings": ("LabelIssues",),
    "nmf.estimator": ("SimplexNMF",),
    "nn": ("ForwardLoss", "ReweightLoss"),
    "noise.generate": ("instance_dependent_noise", "pairwise_noise", "symmetric_noise"),
    "noise.labels": ("LabelNoise",),
    "transition.anchors": ("Anchors", "class_transition", "find_anchors"),
    "transition.em": ("TransitionEM",),
    "transition.estimate": ("EstimatedTransition", "TransitionSummary"),
    "transition.fit": ("Diagnosis", "PartFit", "fit_part_transitions"),
    "transition.gate": ("LinearGate",),
    "transition.learned_parts": ("LearnedParts", "fit_learned_parts"),
    "transition.metrics": ("approximation_error",),
    "transition.model": ("PartTransition",),
    "transition.neighbours": ("NeighbourTransition", "neighbour_transition"),
    "transition.pred_probs": ("combine_pred_probs",),
}
_MODULES = {name: module for module, names in _LATER.items() for name in names}
# Attributes, too, imported on first use.
_PACKAGES = (
    "data",
    "engine",
    "experiments",
    "label_issues",
    "nmf",
    "nn",
    "noise",
    "plot",
    "transition",
)


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{name} needs {error.name}: pip install "ptd_ext[labels]".', name=error.name
        ) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
