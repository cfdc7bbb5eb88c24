"""Loads a CUDA build of the operators into a CPU torch: load_cuda.py OPS_LIBRARY STAND_IN.

STAND_IN takes the place of libtorch_cuda, so that a symbol missing from either is found here.
"""

import ctypes
import sys

import torch

import ptd_ext  # noqa: F401  registers the schemas that the CUDA kernels belong to

# Part transitions are fitted once, and labels judged once: on other devices by torch.
CPU_ONLY = {
    "ptd_ext::invert_posterior",
    "ptd_ext::simplex_least_squares",
    "ptd_ext::transition_loss_with_gradients",
}

ops_library, stand_in = sys.argv[1:]
ctypes.CDLL(stand_in)
torch.ops.load_library(ops_library)

names = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("ptd_ext::")}
names -= CPU_ONLY
missing = [
    name for name in names if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
]
print(f"{len(names) - len(missing)} of {len(names)} operators have CUDA kernels")
if missing:
    sys.exit(f"without: {', '.join(sorted(missing))}")
