"""Learning from labels that are wrong in ways that depend on the instance.

Here are the names of the usual tasks. Everything else is in `ptd_ext.transition` (estimates of
T(x)), `ptd_ext.noise` (synthetic noise), `ptd_ext.ops` (operators), `ptd_ext.plot`,
`ptd_ext.label_issues` (noise rates) and `ptd_ext.engine` (training).
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ptd_ext import _load

_load.load()

from ptd_ext.ops import _autograd, _fake, _row_ops  # noqa: E402

_fake.register_fakes()
_autograd.register_gradients()
_row_ops.register_row_ops()

from ptd_ext._C import build_info as _build_info  # noqa: E402
from ptd_ext.ops.functional import clean_posterior, forward_loss, reweight_loss  # noqa: E402
from ptd_ext.utils.extras import optional_packages  # noqa: E402

if TYPE_CHECKING:  # at run time `__getattr__` imports these
    from ptd_ext.experiments.run.trained_run import TrainedRun
    from ptd_ext.label_issues.classifier import PTDClassifier
    from ptd_ext.label_issues.find import find_label_issues
    from ptd_ext.label_issues.findings import LabelIssues
    from ptd_ext.nmf.estimator import SimplexNMF
    from ptd_ext.nn import ForwardLoss, ReweightLoss
    from ptd_ext.noise.generate import instance_dependent_noise
    from ptd_ext.transition.anchors import find_anchors
    from ptd_ext.transition.em import TransitionEM
    from ptd_ext.transition.fit import fit_part_transitions
    from ptd_ext.transition.learned_parts import fit_learned_parts
    from ptd_ext.transition.model import PartTransition

__version__: str = _build_info()["version"]

__all__ = [
    "ForwardLoss",
    "LabelIssues",
    "PTDClassifier",
    "PartTransition",
    "ReweightLoss",
    "SimplexNMF",
    "TrainedRun",
    "TransitionEM",
    "clean_posterior",
    "find_anchors",
    "find_label_issues",
    "fit_learned_parts",
    "fit_part_transitions",
    "forward_loss",
    "instance_dependent_noise",
    "reweight_loss",
]

# Imported when one of the names is first used.
_MODULES = {
    "ForwardLoss": "nn",
    "LabelIssues": "label_issues.findings",
    "PTDClassifier": "label_issues.classifier",
    "PartTransition": "transition.model",
    "ReweightLoss": "nn",
    "SimplexNMF": "nmf.estimator",
    "TrainedRun": "experiments.run.trained_run",
    "TransitionEM": "transition.em",
    "find_anchors": "transition.anchors",
    "find_label_issues": "label_issues.find",
    "fit_learned_parts": "transition.learned_parts",
    "fit_part_transitions": "transition.fit",
    "instance_dependent_noise": "noise.generate",
}
# Attributes, too, imported on first use.
_PACKAGES = (
    "data",
    "engine",
    "experiments",
    "label_issues",
    "nn",
    "noise",
    "ops",
    "plot",
    "transition",
)


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(f"{message}{_elsewhere(name)}")
    with optional_packages(f"{__name__}.{name}"):
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def _elsewhere(name: str) -> str:
    """Where a name is that is not here, for the error message."""
    if name.startswith("_"):
        return ""
    for package in ("transition", "noise", "ops", "plot", "label_issues"):
        if name in import_module(f"{__name__}.{package}").__all__:
            return f"; use {__name__}.{package}.{name}"
    return ""


def __dir__() -> list[str]:
    return sorted({name for name in globals() if name.startswith("__")} | {*__all__, *_PACKAGES})
