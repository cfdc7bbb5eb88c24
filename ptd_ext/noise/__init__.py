"""Synthetic label noise for experiments, and the files it is saved in.

`instance_dependent_noise` is in `ptd_ext` itself.
"""

from ptd_ext.noise.generate import pairwise_noise, symmetric_noise
from ptd_ext.noise.labels import LabelNoise

__all__ = ["LabelNoise", "pairwise_noise", "symmetric_noise"]
