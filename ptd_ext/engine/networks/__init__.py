"""Networks, each of which returns (representation [N, D], logits [N, C]).

The representation is the input of the last layer; transition matrices of parts are learned from it.
Inputs are images [N, channels, H, W] or rows [N, D] as floats, or tokens [N, L].

To add a network, add an entry to `registry.NETWORKS`. To try one without a change of the package,
name it `package.module:function`.
"""

from ptd_ext.engine.networks.build import build, check
from ptd_ext.engine.networks.registry import NETWORKS, Network, check_name, networks_for

__all__ = ["NETWORKS", "Network", "build", "check", "check_name", "networks_for"]
