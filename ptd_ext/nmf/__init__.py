"""Simplex semi-NMF: features X ≈ hW with the rows of h on the simplex."""

from ptd_ext.nmf.estimator import SimplexNMF

__all__ = ["SimplexNMF"]
