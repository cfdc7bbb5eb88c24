"""Learning from labels that are wrong in ways that depend on the instance."""

import sys
from typing import TYPE_CHECKING

from ptd_ext import _load

_load.load()

from ptd_ext.ops import (  # noqa: E402
    _autograd,
    _fake,
    _register_simplex,
    functional,
    reference,
)

_fake.register_fakes()
_autograd.register_gradients()
_register_simplex.register_simplex()
# These two keep their short names: `import ptd_ext.functional` and `import ptd_ext.reference`.
sys.modules[f"{__name__}.functional"] = functional
sys.modules[f"{__name__}.reference"] = reference

from ptd_ext._C import build_info  # noqa: E402
from ptd_ext.label_issues import LabelIssues, find_label_issues  # noqa: E402
from ptd_ext.nmf.estimator import SimplexNMF  # noqa: E402
from ptd_ext.nn import ForwardLoss, ReweightLoss  # noqa: E402
from ptd_ext.noise.generate import (  # noqa: E402
    instance_dependent_noise,
    pairwise_noise,
    symmetric_noise,
)
from ptd_ext.noise.labels import LabelNoise, load_noise, save_noise  # noqa: E402
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
from ptd_ext.transition.anchors import (  # noqa: E402
    Anchors,
    class_transition,
    find_anchors,
)
from ptd_ext.transition.em import TransitionEM  # noqa: E402
from ptd_ext.transition.fit import (  # noqa: E402
    Diagnosis,
    PartFit,
    fit_part_transitions,
)
from ptd_ext.transition.gate import LinearGate  # noqa: E402
from ptd_ext.transition.learned_parts import LearnedParts, fit_learned_parts  # noqa: E402
from ptd_ext.transition.metrics import approximation_error  # noqa: E402
from ptd_ext.transition.model import PartTransition  # noqa: E402
from ptd_ext.transition.neighbours import (  # noqa: E402
    NeighbourTransition,
    neighbour_transition,
)
from ptd_ext.transition.plot import image_grid, part_images, plot_part_images  # noqa: E402
from ptd_ext.transition.posteriors import combine_posteriors  # noqa: E402
from ptd_ext.transition.summary import TransitionSummary  # noqa: E402

if TYPE_CHECKING:  # at run time `__getattr__` imports these
    from ptd_ext.label_issues.classifier import PTDClassifier
    from ptd_ext.train.finished_run import load_run

__version__ = build_info()["version"]

__all__ = [
    "Anchors",
    "Diagnosis",
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
    "TransitionEM",
    "TransitionSummary",
    "approximation_error",
    "build_info",
    "class_transition",
    "clean_posterior",
    "combine_posteriors",
    "find_anchors",
    "find_label_issues",
    "fit_learned_parts",
    "fit_part_transitions",
    "forward_loss",
    "image_grid",
    "instance_dependent_noise",
    "load_noise",
    "load_run",
    "neighbour_transition",
    "noisy_posterior",
    "pairwise_noise",
    "part_images",
    "plot_part_images",
    "prepare_parts",
    "project_transition",
    "reweight_loss",
    "save_noise",
    "simplex_projection",
    "simplex_weights",
    "symmetric_noise",
    "transition_matrix",
]


def __getattr__(name: str) -> object:
    if name == "load_run":  # the training driver is imported only where it is used
        from ptd_ext.train.finished_run import load_run

        return load_run
    # The classifier is scikit-learn's kind of estimator; without it the rest works all the same.
    if name != "PTDClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from ptd_ext.label_issues.classifier import PTDClassifier
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'PTDClassifier needs {error.name}: pip install "ptd_ext[train]".'
        ) from None
    return PTDClassifier
