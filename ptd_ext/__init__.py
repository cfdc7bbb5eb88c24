"""Learning from labels that are wrong in ways that depend on the instance."""

from ptd_ext import _load

_load.load()

from ptd_ext import _register  # noqa: E402

_register.register()

from ptd_ext._C import build_info  # noqa: E402
from ptd_ext.anchors import (  # noqa: E402
    Anchors,
    class_transition,
    combine_posteriors,
    find_anchors,
)
from ptd_ext.approximation import approximation_error  # noqa: E402
from ptd_ext.functional import (  # noqa: E402
    clean_posterior,
    forward_loss,
    noisy_posterior,
    project_transition,
    reweight_loss,
    transition_matrix,
)
from ptd_ext.label_noise import LabelNoise, load_noise, save_noise  # noqa: E402
from ptd_ext.modules import ForwardLoss, ReweightLoss  # noqa: E402
from ptd_ext.noise import (  # noqa: E402
    instance_dependent_noise,
    pairwise_noise,
    symmetric_noise,
)
from ptd_ext.part_fit import (  # noqa: E402
    Diagnosis,
    PartFit,
    fit_part_transitions,
)
from ptd_ext.part_transition import PartTransition  # noqa: E402
from ptd_ext.parts import prepare_parts  # noqa: E402
from ptd_ext.simplex import simplex_projection, simplex_weights  # noqa: E402
from ptd_ext.simplex_nmf import SimplexNMF  # noqa: E402
from ptd_ext.visualise import image_grid, part_images, plot_part_images  # noqa: E402

__version__ = build_info()["version"]

__all__ = [
    "Anchors",
    "Diagnosis",
    "ForwardLoss",
    "LabelNoise",
    "PartFit",
    "PartTransition",
    "ReweightLoss",
    "SimplexNMF",
    "approximation_error",
    "build_info",
    "class_transition",
    "clean_posterior",
    "combine_posteriors",
    "find_anchors",
    "fit_part_transitions",
    "forward_loss",
    "image_grid",
    "instance_dependent_noise",
    "load_noise",
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
