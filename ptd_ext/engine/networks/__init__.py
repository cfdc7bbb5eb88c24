"""Networks, each of which returns (representation [N, D], logits [N, C]).

The representation is what the last layer gets: transition matrices of parts are learned from it.
Inputs are images [N, channels, H, W] or rows [N, D] as floats, or tokens [N, L].
"""

from ptd_ext.train.networks.build import NAMES, build, check

__all__ = ["NAMES", "build", "check"]
