"""Synthetic label noise for experiments, and the files it is saved in."""

from ptd_ext.noise.generate import instance_dependent_noise, pairwise_noise, symmetric_noise
from ptd_ext.noise.labels import LabelNoise

__all__ = [
    "LabelNoise",
    "instance_dependent_noise",
    "pairwise_noise",
    "symmetric_noise",
]
