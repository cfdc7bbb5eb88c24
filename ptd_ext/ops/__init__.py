"""The operators: posteriors through T(x), T(x) itself, and problems on the simplex.

The losses and :func:`ptd_ext.clean_posterior` are in `ptd_ext` itself.
"""

from ptd_ext import _C
from ptd_ext.ops import reference
from ptd_ext.ops.functional import noisy_posterior, project_transition, transition_matrix
from ptd_ext.ops.layout import prepare_parts
from ptd_ext.ops.simplex import simplex_projection, simplex_weights

build_info = _C.build_info

__all__ = [
    "build_info",
    "noisy_posterior",
    "prepare_parts",
    "project_transition",
    "reference",
    "simplex_projection",
    "simplex_weights",
    "transition_matrix",
]
