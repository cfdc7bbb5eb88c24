"""Losses for learning from labels that are wrong in ways that depend on the instance."""

from ptd_ext import _load

_load.load()

from ptd_ext import _register  # noqa: E402

_register.register()

from ptd_ext._C import build_info  # noqa: E402
from ptd_ext.functional import (  # noqa: E402
    clean_posterior,
    forward_loss,
    noisy_posterior,
    project_transition,
    reweight_loss,
    transition_matrix,
)
from ptd_ext.modules import ForwardLoss, ReweightLoss  # noqa: E402
from ptd_ext.parts import prepare_parts  # noqa: E402
from ptd_ext.simplex import simplex_projection, simplex_weights  # noqa: E402
from ptd_ext.simplex_nmf import SimplexNMF  # noqa: E402

__version__ = build_info()["version"]

__all__ = [
    "ForwardLoss",
    "ReweightLoss",
    "SimplexNMF",
    "build_info",
    "clean_posterior",
    "forward_loss",
    "noisy_posterior",
    "prepare_parts",
    "project_transition",
    "reweight_loss",
    "simplex_projection",
    "simplex_weights",
    "transition_matrix",
]
